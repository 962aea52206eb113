"""Every route of the dashboard, in matching order."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daybreak.web.dashboard.accounts import handlers as accounts
from daybreak.web.dashboard.activity import handlers as activity
from daybreak.web.dashboard.assets import asset_response
from daybreak.web.dashboard.context import DashboardContext
from daybreak.web.dashboard.files import handlers as files
from daybreak.web.dashboard.insight import campaign_handlers as campaigns
from daybreak.web.dashboard.insight import handlers as insight
from daybreak.web.dashboard.insight.cache import FigureCache
from daybreak.web.dashboard.insight.empty_page import show_when_counted
from daybreak.web.dashboard.notifications import handlers as notifications
from daybreak.web.dashboard.operator import accounts as accounts_admin
from daybreak.web.dashboard.operator import directory, freshness, nodes, runs
from daybreak.web.dashboard.operator import seats as seats_admin
from daybreak.web.dashboard.page_handlers import account_page, operator_page, public_page
from daybreak.web.dashboard.passkeys import handlers as passkeys
from daybreak.web.dashboard.password_prompt import handlers as password_prompt
from daybreak.web.dashboard.password_reset import handlers as password_reset
from daybreak.web.dashboard.second_factor import handlers as second_factor
from daybreak.web.dashboard.security import handlers as security
from daybreak.web.dashboard.sign_in import handlers as sign_in
from daybreak.web.dashboard.single_sign_on import handlers as single_sign_on
from daybreak.web.dashboard.status import handlers as status
from daybreak.web.dashboard.tokens import handlers as tokens
from daybreak.web.dashboard.unsubscribe import handlers as unsubscribe
from daybreak.web.dashboard.webhooks import handlers as webhooks

_ACCOUNT = "/dashboard/{client_id}"
_TOKENS = f"{_ACCOUNT}/settings/tokens"
_SECURITY = f"{_ACCOUNT}/settings/security"
_PASSKEYS = f"{_SECURITY}/passkeys"
_WEBHOOKS = f"{_ACCOUNT}/settings/webhooks"
_NOTIFICATIONS = f"{_ACCOUNT}/settings/notifications"
_UNSUBSCRIBE = "/dashboard/unsubscribe/{token}"
_OPERATOR = "/dashboard/operator"


def dashboard_routes(dashboard: DashboardContext) -> list[Route]:
    """Return the routes below /dashboard, and the redirect from `/`."""
    return [
        _asset_route(dashboard),
        *_public_routes(dashboard),
        *_operator_routes(dashboard),
        *_token_routes(dashboard),
        *_security_routes(dashboard),
        *_passkey_routes(dashboard),
        *_event_routes(dashboard),
        *_account_routes(dashboard),
    ]


def _asset_route(dashboard: DashboardContext) -> Route:
    async def asset(request: Request) -> Response:
        return asset_response(dashboard.assets, request)

    return Route("/dashboard/static/{digest}/{name}", asset)


def _public_routes(dashboard: DashboardContext) -> list[Route]:
    page = partial(public_page, dashboard)
    return [
        Route("/", page(sign_in.open_start_page)),
        Route("/dashboard/status", page(status.show_status)),
        Route("/dashboard", page(sign_in.open_start_page)),
        Route("/dashboard/", page(sign_in.open_start_page)),
        Route("/dashboard/sign-in", page(sign_in.show_sign_in_form)),
        Route("/dashboard/sign-in", page(sign_in.sign_in), methods=["POST"]),
        Route("/dashboard/sign-in/oidc", page(single_sign_on.start_sign_in)),
        Route("/dashboard/sign-in/oidc/callback", page(single_sign_on.receive_response)),
        Route("/dashboard/sign-out", page(sign_in.sign_out), methods=["POST"]),
        Route("/dashboard/forgot-password", page(password_reset.show_request_form)),
        Route("/dashboard/forgot-password", page(password_reset.request_reset), methods=["POST"]),
        Route("/dashboard/reset-password", page(password_reset.show_password_form)),
        Route("/dashboard/reset-password", page(password_reset.set_password), methods=["POST"]),
        Route(_UNSUBSCRIBE, page(unsubscribe.show_unsubscribe_form)),
        Route(_UNSUBSCRIBE, page(unsubscribe.stop_mails), methods=["POST"]),
        Route("/dashboard/second-factor", page(second_factor.show_code_form)),
        Route("/dashboard/second-factor", page(second_factor.check_code), methods=["POST"]),
        Route("/dashboard/second-factor/passkey", page(second_factor.check_passkey), methods=["POST"]),
        Route("/dashboard/second-factor/passkey/options", page(second_factor.issue_passkey_options), methods=["POST"]),
        Route("/dashboard/enrol", page(second_factor.show_enrolment)),
        Route("/dashboard/enrol", page(second_factor.confirm_enrolment), methods=["POST"]),
    ]


def _operator_routes(dashboard: DashboardContext) -> list[Route]:
    page = partial(operator_page, dashboard)
    return [
        Route(_OPERATOR, page(runs.open_operator_start)),
        Route(f"{_OPERATOR}/runs", page(runs.list_runs)),
        Route(f"{_OPERATOR}/runs-progress", page(runs.show_progress, is_activity=False)),
        Route(f"{_OPERATOR}/run-requests", page(runs.request_new_run), methods=["POST"]),
        Route(f"{_OPERATOR}/runs/{{snapshot_id}}", page(runs.show_run)),
        Route(f"{_OPERATOR}/runs/{{snapshot_id}}/decide", page(runs.decide_on_run), methods=["POST"]),
        Route(f"{_OPERATOR}/freshness", page(freshness.show_freshness)),
        Route(f"{_OPERATOR}/people", page(directory.list_accounts)),
        Route(f"{_OPERATOR}/accounts/{{account_id}}", page(accounts_admin.show_account)),
        Route(f"{_OPERATOR}/accounts/{{account_id}}/api-tokens", page(accounts_admin.set_api_tokens), methods=["POST"]),
        Route(f"{_OPERATOR}/accounts/{{account_id}}/grants", page(accounts_admin.put_grant), methods=["POST"]),
        Route(
            f"{_OPERATOR}/accounts/{{account_id}}/grants/remove", page(accounts_admin.remove_grant), methods=["POST"]
        ),
        Route(f"{_OPERATOR}/seats", page(directory.list_seats)),
        Route(f"{_OPERATOR}/seats/new", page(seats_admin.show_new_seat_form)),
        Route(f"{_OPERATOR}/seats/new", page(seats_admin.create_seat), methods=["POST"]),
        Route(f"{_OPERATOR}/seats/{{seat_id}}", page(seats_admin.show_seat)),
        Route(f"{_OPERATOR}/seats/{{seat_id}}/reset-password", page(seats_admin.reset_password), methods=["POST"]),
        Route(
            f"{_OPERATOR}/seats/{{seat_id}}/sessions/{{reference}}/end", page(seats_admin.end_session), methods=["POST"]
        ),
        Route(f"{_OPERATOR}/seats/{{seat_id}}/{{action}}", page(seats_admin.act_on_seat), methods=["POST"]),
        Route(f"{_OPERATOR}/confirm", page(password_prompt.show_password_prompt)),
        Route(f"{_OPERATOR}/confirm", page(password_prompt.confirm_password), methods=["POST"]),
        Route(f"{_OPERATOR}/confirm/oidc", page(single_sign_on.start_reauthentication)),
        Route(f"{_OPERATOR}/nodes", page(nodes.list_nodes)),
    ]


def _token_routes(dashboard: DashboardContext) -> list[Route]:
    page = partial(account_page, dashboard)
    create = page(tokens.create_token, return_to="settings/tokens/new", kept_fields=("name", "expiry", "networks"))
    change = page(tokens.change_token, return_to="settings/tokens/{token_id}", kept_fields=("name", "networks"))
    revoke = page(tokens.revoke_token, return_to="settings/tokens/{token_id}/revoke")
    token = f"{_TOKENS}/{{token_id}}"
    return [
        Route(_TOKENS, page(tokens.list_tokens)),
        Route(f"{_TOKENS}/new", page(tokens.show_new_token_form)),
        Route(f"{_TOKENS}/new", create, methods=["POST"]),
        Route(token, page(tokens.show_token)),
        Route(token, change, methods=["POST"]),
        Route(f"{token}/first-use", page(tokens.show_first_use, is_activity=False)),
        Route(f"{token}/revoke", page(tokens.show_revoke_form)),
        Route(f"{token}/revoke", revoke, methods=["POST"]),
    ]


def _security_routes(dashboard: DashboardContext) -> list[Route]:
    page = partial(account_page, dashboard)
    form = partial(account_page, dashboard, return_to="settings/security")
    return [
        Route(f"{_ACCOUNT}/confirm", page(password_prompt.show_password_prompt)),
        Route(f"{_ACCOUNT}/confirm", page(password_prompt.confirm_password), methods=["POST"]),
        Route(f"{_ACCOUNT}/confirm/oidc", page(single_sign_on.start_reauthentication)),
        Route(_SECURITY, page(security.show_security)),
        Route(f"{_SECURITY}/password", form(security.change_password), methods=["POST"]),
        Route(f"{_SECURITY}/second-factor", page(security.show_second_factor)),
        Route(f"{_SECURITY}/second-factor", form(security.start_second_factor), methods=["POST"]),
        Route(f"{_SECURITY}/second-factor/confirm", form(security.confirm_second_factor), methods=["POST"]),
        Route(f"{_SECURITY}/recovery-codes", form(security.replace_recovery_codes), methods=["POST"]),
        Route(f"{_SECURITY}/sessions/{{reference}}/end", form(security.end_session), methods=["POST"]),
        Route(f"{_SECURITY}/sign-out-everywhere", page(security.show_sign_out_form)),
        Route(f"{_SECURITY}/sign-out-everywhere", form(security.sign_out_everywhere), methods=["POST"]),
    ]


def _passkey_routes(dashboard: DashboardContext) -> list[Route]:
    page = partial(account_page, dashboard)
    form = partial(account_page, dashboard, return_to="settings/security")
    add = page(passkeys.add_passkey, return_to="settings/security/passkeys/new", kept_fields=("name",))
    return [
        Route(f"{_PASSKEYS}/new", page(passkeys.show_new_passkey_form)),
        Route(f"{_PASSKEYS}/new", add, methods=["POST"]),
        Route(f"{_PASSKEYS}/options", form(passkeys.issue_options), methods=["POST"]),
        Route(f"{_PASSKEYS}/{{reference}}/rename", page(passkeys.show_rename_form)),
        Route(f"{_PASSKEYS}/{{reference}}/rename", form(passkeys.rename_passkey), methods=["POST"]),
        Route(f"{_PASSKEYS}/{{reference}}/remove", page(passkeys.show_remove_form)),
        Route(f"{_PASSKEYS}/{{reference}}/remove", form(passkeys.remove_passkey), methods=["POST"]),
    ]


def _event_routes(dashboard: DashboardContext) -> list[Route]:
    page = partial(account_page, dashboard)
    form = partial(account_page, dashboard, return_to="settings/webhooks/{endpoint_id}")
    create = page(webhooks.create_webhook, return_to="settings/webhooks/new", kept_fields=("url",))
    save = page(notifications.save_notifications, return_to="settings/notifications")
    webhook = f"{_WEBHOOKS}/{{endpoint_id}}"
    return [
        Route(_NOTIFICATIONS, page(notifications.show_notifications)),
        Route(_NOTIFICATIONS, save, methods=["POST"]),
        Route(_WEBHOOKS, page(webhooks.list_webhooks)),
        Route(f"{_WEBHOOKS}/new", page(webhooks.show_new_webhook_form)),
        Route(f"{_WEBHOOKS}/new", create, methods=["POST"]),
        Route(webhook, page(webhooks.show_webhook)),
        Route(f"{webhook}/deliveries", page(webhooks.show_deliveries)),
        Route(f"{webhook}/deliveries/{{delivery_id}}/retry", form(webhooks.retry_delivery), methods=["POST"]),
        Route(f"{webhook}/test", form(webhooks.send_test), methods=["POST"]),
        Route(f"{webhook}/disable", form(webhooks.disable_webhook), methods=["POST"]),
        Route(f"{webhook}/enable", form(webhooks.enable_webhook), methods=["POST"]),
        Route(f"{webhook}/take-over", page(webhooks.show_take_over_form)),
        Route(f"{webhook}/take-over", form(webhooks.take_over_webhook), methods=["POST"]),
        Route(f"{webhook}/rotate", page(webhooks.show_rotate_form)),
        Route(f"{webhook}/rotate", form(webhooks.rotate_secret), methods=["POST"]),
        Route(f"{webhook}/remove", page(webhooks.show_remove_form)),
        Route(f"{webhook}/remove", form(webhooks.remove_webhook), methods=["POST"]),
    ]


def _account_routes(dashboard: DashboardContext) -> list[Route]:
    page = partial(account_page, dashboard)
    figures = FigureCache()
    return [
        Route(f"{_ACCOUNT}/accounts", page(accounts.list_accounts)),
        Route(f"{_ACCOUNT}/commands.json", page(accounts.list_commands)),
        *(
            Route(f"{_ACCOUNT}/{path}", page(partial(show_when_counted, partial(show, figures)), is_slow=True))
            for path, show in (
                ("insight", insight.show_insight),
                ("insight/campaigns", campaigns.list_campaigns),
                ("insight/campaigns/{campaign_id}", campaigns.show_campaign),
            )
        ),
        Route(
            f"{_ACCOUNT}/insight/campaigns/{{campaign_id}}/{{block}}.csv",
            page(partial(campaigns.download_campaign_block, figures), is_slow=True),
        ),
        Route(f"{_ACCOUNT}/insight/{{block}}.csv", page(partial(insight.download_block, figures), is_slow=True)),
        Route(f"{_ACCOUNT}/activity", page(activity.show_activity, is_slow=True)),
        Route(f"{_ACCOUNT}/activity.csv", page(activity.download_csv)),
        Route(f"{_ACCOUNT}/activity.jsonl", page(activity.download_json_lines)),
        Route(f"{_ACCOUNT}/files", page(files.show_files)),
        Route(f"{_ACCOUNT}/files/all.zip", page(files.download_all)),
        Route(f"{_ACCOUNT}/files/{{resource}}/preview", page(files.preview_file, is_slow=True)),
        Route(f"{_ACCOUNT}/files/{{resource}}/changes", page(files.preview_changes, is_slow=True)),
        Route(f"{_ACCOUNT}/files/{{resource}}/spreadsheet-safe.csv", page(files.download_spreadsheet_safe)),
        Route(f"{_ACCOUNT}/files/{{resource}}/{{format}}", page(files.download_file)),
    ]
