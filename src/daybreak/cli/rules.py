"""`daybreakd rules`: the rules of the operator's own models."""

from daybreak.catalogue.models import load_models
from daybreak.cli.options import Config, settings_of
from daybreak.cli.output import print_note, print_text
from daybreak.domain.errors import OperatorError
from daybreak.proof.model_rules import rules_of
from daybreak.settings.reference import toml_text


def rules(*, config: Config = None) -> None:
    """Print the rules of your own models as a section of the configuration. Read each rule before you add it there."""
    settings = settings_of(config)
    own = [model for model in load_models(settings.snapshot.models_dir).values() if not model.shipped]
    if not own:
        raise OperatorError("There are no own models: snapshot.models_dir is not set, or has no RESOURCE.sql.")
    print_text("[guard.approved_rules]")
    for model in own:
        lines = "".join(f"    {toml_text(rule)},\n" for rule in rules_of(model, settings.source.engine).rules)
        print_text(f"{model.resource} = [\n{lines}]" if lines else f"{model.resource} = []")
    print_note("Rules that you approve go to the configuration. A snapshot whose models have other rules is held.")
