"""Every route of the dashboard, in matching order."""

from collections.abc import Awaitable, Callable
from functools import partial
from itertools import chain

from starlette.responses import Response
from starlette.routing import Route

from daybreak.web.dashboard.accounts import handlers as accounts
from daybreak.web.dashboard.activity import handlers as activity
from daybreak.web.dashboard.context import DashboardContext
from daybreak.web.dashboard.files import handlers as files
from daybreak.web.dashboard.insight import handlers as insight
from daybreak.web.dashboard.insight.queries import FigureCache
from daybreak.web.dashboard.operator import accounts as people
from daybreak.web.dashboard.operator import explanation, runs, seats
from daybreak.web.dashboard.page_handlers import PageHandler, PageRoute, PageRoutes
from daybreak.web.dashboard.page_request import PageRequest, Policy
from daybreak.web.dashboard.password_reset import handlers as password_reset
from daybreak.web.dashboard.preferences import handlers as preferences
from daybreak.web.dashboard.second_factor import handlers as second_factor
from daybreak.web.dashboard.security import handlers as security
from daybreak.web.dashboard.sign_in import handlers as sign_in
from daybreak.web.dashboard.status import handlers as status
from daybreak.web.dashboard.tokens import handlers as tokens
from daybreak.web.dashboard.webhooks import handlers as webhooks

_ACCOUNT = "/dashboard/{client_id}"
_TOKENS = f"{_ACCOUNT}/settings/tokens"
_SECURITY = f"{_ACCOUNT}/settings/security"
_WEBHOOKS = f"{_ACCOUNT}/settings/webhooks"
_UNSUBSCRIBE = "/dashboard/unsubscribe/{token}"
_OPERATOR = "/dashboard/operator"


def dashboard_routes(dashboard: DashboardContext) -> list[Route]:
    """Return the routes below /dashboard, and the redirect from `/`."""
    page = PageRoutes(dashboard)
    return [
        Route("/dashboard/static/{digest}/{name}", dashboard.assets.response),
        *_public_routes(page),
        *_operator_routes(page),
        *_people_routes(page),
        *_token_routes(page),
        *_security_routes(page),
        *_webhook_routes(page),
        *_account_routes(page),
    ]


def _public_routes(page: PageRoutes) -> list[PageRoute]:
    return [
        page.public("/", sign_in.open_start_page),
        page.public("/dashboard/status", status.show_status),
        page.public("/dashboard", sign_in.open_start_page),
        page.public("/dashboard/", sign_in.open_start_page),
        page.public("/dashboard/sign-in", sign_in.show_sign_in_form),
        page.public("/dashboard/sign-in", sign_in.sign_in, "POST"),
        page.public("/dashboard/sign-in/oidc", sign_in.start_single_sign_on),
        page.public("/dashboard/sign-in/oidc/callback", sign_in.receive_provider_response),
        page.public("/dashboard/sign-out", sign_in.sign_out, "POST"),
        page.public("/dashboard/forgot-password", password_reset.show_request_form),
        page.public("/dashboard/forgot-password", password_reset.request_reset, "POST"),
        page.public("/dashboard/reset-password", password_reset.show_password_form),
        page.public("/dashboard/reset-password", password_reset.set_password, "POST"),
        page.public(_UNSUBSCRIBE, preferences.show_unsubscribe_form),
        page.public(_UNSUBSCRIBE, preferences.stop_mails, "POST"),
        page.public("/dashboard/second-factor", second_factor.show_code_form),
        page.public("/dashboard/second-factor", second_factor.check_code, "POST"),
        page.public("/dashboard/second-factor/passkey", second_factor.check_passkey, "POST"),
        page.public("/dashboard/second-factor/passkey/options", second_factor.issue_passkey_options, "POST"),
        page.public("/dashboard/enrol", second_factor.show_enrolment),
        page.public("/dashboard/enrol", second_factor.confirm_enrolment, "POST"),
    ]


def _operator_routes(page: PageRoutes) -> list[PageRoute]:
    policy = partial(Policy, audience="operator", section="runs")
    change = partial(policy, recent_password=True)
    run = f"{_OPERATOR}/runs/{{snapshot_id}}"
    explain = partial(
        insight.show_when_counted, FigureCache(), explanation.show_explanation, wait=explanation.show_waiting
    )
    return [
        page.get(_OPERATOR, runs.open_operator_start, policy()),
        page.get(f"{_OPERATOR}/runs", runs.list_runs, policy()),
        page.get(f"{_OPERATOR}/runs-progress", runs.show_progress, policy(is_activity=False)),
        page.post(f"{_OPERATOR}/run-requests", runs.request_new_run, change(return_to="runs"), runs.list_runs),
        page.get(run, runs.show_run, policy()),
        page.get(f"{run}/missing-rows", explain, policy(is_slow=True)),
        *page.confirmation(f"{run}/publish", "operator/publish.html", runs.load_undecided, runs.publish_run, change()),
        *page.confirmation(f"{run}/discard", "operator/discard.html", runs.load_undecided, runs.discard_run, change()),
        page.get(f"{_OPERATOR}/freshness", status.show_freshness, policy(section="freshness")),
        page.get(f"{_OPERATOR}/consumers", people.list_consumers, policy(section="consumers")),
        page.get(f"{_OPERATOR}/nodes", runs.list_nodes, policy(section="nodes")),
        *_password_prompt(page, _OPERATOR, policy(section="")),
    ]


def _people_routes(page: PageRoutes) -> list[PageRoute]:
    policy = partial(Policy, audience="operator", section="people")
    change = partial(policy, recent_password=True)
    account, seat = f"{_OPERATOR}/accounts/{{account_id}}", f"{_OPERATOR}/seats/{{seat_id}}"
    on_account, on_seat = change(return_to="accounts/{account_id}"), change(return_to="seats/{seat_id}")
    grant, new_seat = f"{account}/grants/{{seat_id}}", change(once="seats?done=seat-exists")
    turn_on, turn_off = (partial(people.set_api_tokens, enabled=enabled) for enabled in (True, False))
    return [
        page.get(f"{_OPERATOR}/people", people.list_accounts, policy()),
        page.get(account, people.show_account, policy()),
        *page.confirmation(
            f"{account}/api-tokens/off", "operator/api_tokens_off.html", people.load_tokens, turn_off, change()
        ),
        page.post(f"{account}/api-tokens/on", turn_on, on_account),
        page.post(f"{account}/grants", people.put_grant, on_account, people.show_account),
        *page.confirmation(
            f"{grant}/reduce", "operator/reduce_grant.html", people.load_reduced_grant, people.reduce_grant, change()
        ),
        *page.confirmation(
            f"{grant}/remove", "operator/remove_grant.html", people.load_grant, people.remove_grant, change()
        ),
        page.get(f"{_OPERATOR}/seats", people.list_seats, policy()),
        *page.form(f"{_OPERATOR}/seats/new", seats.show_new_seat_form, seats.create_seat, new_seat),
        page.get(seat, seats.show_seat, policy()),
        *page.confirmation(
            f"{seat}/reset-password", "operator/reset_password.html", seats.load_seat, seats.reset_password, change()
        ),
        page.post(f"{seat}/sessions/{{reference}}/end", seats.end_session, on_seat),
        *(
            page.post(f"{seat}/{action.name}", partial(seats.perform_action, action), on_seat, seats.show_seat)
            for action in seats.HARMLESS_ACTIONS
        ),
        *chain.from_iterable(
            page.confirmation(
                f"{seat}/{action.name}",
                action.template,
                seats.load_seat,
                partial(seats.perform_action, action),
                change(),
            )
            for action in seats.CONFIRMED_ACTIONS
        ),
    ]


def _password_prompt(page: PageRoutes, parent: str, policy: Policy) -> list[PageRoute]:
    return [
        *page.form(f"{parent}/confirm", sign_in.show_password_prompt, sign_in.confirm_password, policy),
        page.get(f"{parent}/confirm/oidc", sign_in.start_reauthentication, policy),
    ]


def _token_routes(page: PageRoutes) -> list[PageRoute]:
    policy = partial(Policy, section="tokens", permission="manage_api_tokens")
    new = policy(recent_password=True, once="settings/tokens?done=token-exists")
    token = f"{_TOKENS}/{{token_id}}"
    return [
        page.get(_TOKENS, tokens.list_tokens, policy(explains_refusal=True)),
        *page.form(f"{_TOKENS}/new", tokens.show_new_token_form, tokens.create_token, new),
        *page.form(token, tokens.show_token, tokens.change_token, policy()),
        page.get(f"{token}/first-use", tokens.show_first_use, policy(is_activity=False)),
        page.get(f"{token}/trace", tokens.show_trace, policy(is_activity=False)),
        *page.confirmation(
            f"{token}/revoke", "tokens/revoke.html", tokens.load_live_token, tokens.revoke_token, policy()
        ),
    ]


def _security_routes(page: PageRoutes) -> list[PageRoute]:
    policy = partial(Policy, section="security")
    change = partial(policy, recent_password=True)
    on_security, on_factor = "settings/security", "settings/security/second-factor"
    codes, replaced = f"{_SECURITY}/recovery-codes", change(once=f"{on_security}?done=codes-exist")
    factor, sign_out = f"{_SECURITY}/second-factor", f"{_SECURITY}/sign-out-everywhere"
    passkeys, passkey = f"{_SECURITY}/passkeys", f"{_SECURITY}/passkeys/{{reference}}"
    options = change(return_to=f"{on_security}/passkeys/new")
    confirm_factor, show_factor = security.confirm_second_factor, security.show_second_factor
    return [
        *_password_prompt(page, _ACCOUNT, Policy()),
        page.get(_SECURITY, security.show_security, policy()),
        page.post(
            f"{_SECURITY}/password", security.change_password, policy(return_to=on_security), security.show_security
        ),
        page.get(factor, show_factor, change()),
        page.post(factor, security.start_second_factor, change(return_to=on_security)),
        page.post(f"{factor}/confirm", confirm_factor, change(return_to=on_factor), show_factor),
        *page.confirmation(
            codes,
            "security/replace_codes.html",
            security.load_recovery_codes,
            security.replace_recovery_codes,
            replaced,
        ),
        page.post(f"{_SECURITY}/sessions/{{reference}}/end", security.end_session, change(return_to=on_security)),
        *page.confirmation(
            sign_out, "security/sign_out.html", security.load_sessions, security.sign_out_everywhere, change()
        ),
        *page.form(f"{passkeys}/new", security.show_new_passkey_form, security.add_passkey, change()),
        page.post(f"{passkeys}/options", security.issue_passkey_options, options),
        *page.form(f"{passkey}/rename", security.show_passkey_form, security.rename_passkey, policy()),
        *page.confirmation(
            f"{passkey}/remove",
            "security/remove_passkey.html",
            security.load_passkey,
            security.remove_passkey,
            change(),
        ),
    ]


def _webhook_routes(page: PageRoutes) -> list[PageRoute]:
    policy = partial(Policy, section="webhooks", permission="manage_webhooks")
    secret = partial(policy, recent_password=True)
    webhook = f"{_WEBHOOKS}/{{endpoint_id}}"
    form = policy(return_to="settings/webhooks/{endpoint_id}")
    new, found = secret(once="settings/webhooks?done=webhook-exists"), webhooks.load_webhook
    rotate = secret(once="settings/webhooks/{endpoint_id}?done=secret-exists")
    return [
        page.get(_WEBHOOKS, webhooks.list_webhooks, policy(explains_refusal=True)),
        *page.form(f"{_WEBHOOKS}/new", webhooks.show_new_webhook_form, webhooks.create_webhook, new),
        page.get(webhook, webhooks.show_webhook, policy()),
        page.get(f"{webhook}/deliveries", webhooks.show_deliveries, policy()),
        page.post(f"{webhook}/deliveries/{{delivery_id}}/retry", webhooks.retry_delivery, form),
        page.post(f"{webhook}/events", webhooks.choose_events, form, webhooks.show_webhook),
        page.post(f"{webhook}/test", webhooks.send_test, form),
        page.post(f"{webhook}/disable", webhooks.disable_webhook, form),
        page.post(f"{webhook}/enable", webhooks.enable_webhook, form),
        *page.confirmation(
            f"{webhook}/take-over", "webhooks/take_over.html", found, webhooks.take_over_webhook, secret()
        ),
        *page.confirmation(f"{webhook}/rotate", "webhooks/rotate.html", found, webhooks.rotate_secret, rotate),
        *page.confirmation(f"{webhook}/remove", "webhooks/remove.html", found, webhooks.remove_webhook, secret()),
    ]


def _account_routes(page: PageRoutes) -> list[PageRoute]:
    notifications, display = f"{_ACCOUNT}/settings/notifications", f"{_ACCOUNT}/settings/display"
    chosen, shown = Policy(section="notifications"), Policy(section="display")
    audit = partial(Policy, section="activity", permission="read_audit")
    return [
        *page.form(notifications, preferences.show_notifications, preferences.save_notifications, chosen),
        *page.form(display, preferences.show_display, preferences.save_display, shown),
        page.get(f"{_ACCOUNT}/accounts", accounts.list_accounts, Policy()),
        page.get(f"{_ACCOUNT}/commands.json", accounts.list_commands, Policy()),
        page.get(f"{_ACCOUNT}/connect", tokens.show_connect, Policy(section="connect", permission="see_files")),
        *_insight_routes(page),
        page.get(f"{_ACCOUNT}/activity", activity.show_activity, audit(is_slow=True)),
        page.get(f"{_ACCOUNT}/activity.csv", activity.download_csv, audit()),
        page.get(f"{_ACCOUNT}/activity.jsonl", activity.download_json_lines, audit()),
        *_file_routes(page),
    ]


def _insight_routes(page: PageRoutes) -> list[PageRoute]:
    figures, path = FigureCache(), f"{_ACCOUNT}/insight"
    policy = partial(Policy, section="insight", permission="see_files", is_slow=True)

    def show(handle: Callable[[FigureCache, PageRequest], Awaitable[Response]]) -> PageHandler:
        return partial(insight.show_when_counted, figures, handle)

    campaign = f"{path}/campaigns/{{campaign_id}}"
    return [
        page.get(path, show(insight.show_insight), policy(explains_refusal=True)),
        page.get(f"{path}/campaigns", show(insight.list_campaigns), policy()),
        page.get(campaign, show(insight.show_campaign), policy()),
        page.get(f"{campaign}/{{block}}.csv", partial(insight.download_campaign_block, figures), policy()),
        page.get(f"{path}/{{block}}.csv", partial(insight.download_block, figures), policy()),
    ]


def _file_routes(page: PageRoutes) -> list[PageRoute]:
    policy = partial(Policy, section="files", permission="download")
    resource = f"{_ACCOUNT}/files/{{resource}}"
    return [
        page.get(f"{_ACCOUNT}/files", files.show_files, policy(permission="see_files", explains_refusal=True)),
        page.get(f"{_ACCOUNT}/files/all.zip", files.download_all, policy()),
        page.get(f"{resource}/preview", files.preview_file, policy(is_slow=True)),
        page.get(f"{resource}/changes", files.preview_changes, policy(is_slow=True)),
        page.get(f"{resource}/changes.csv", files.download_changes, policy()),
        page.get(f"{resource}/workbook.xlsx", files.download_workbook, policy(is_slow=True)),
        page.get(f"{resource}/spreadsheet-safe.csv", files.download_spreadsheet_safe, policy()),
        page.get(f"{resource}/{{format}}", files.download_file, policy()),
    ]
