"""`daybreakd trust`: the keys whose signatures consumers accept."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from daybreak.cli.options import MAXIMUM_NUMBER, Config, Flag, settings_of, state_of
from daybreak.cli.output import print_note, print_text
from daybreak.domain.clock import now_utc
from daybreak.domain.display import format_count
from daybreak.domain.errors import OperatorError
from daybreak.snapshots import trust as keys

app = App(name="trust", help="Keys that sign files.")

TokenUri = Annotated[str | None, Parameter(help="PKCS#11 URI of a hardware token, in which the new CA is created.")]
RecoveryKey = Annotated[Path, Parameter(help="File of the recovery key, such as signing/recovery.")]


@app.command
def show(*, config: Config = None) -> None:
    """Print the trust file, and the revoked keys as comments."""
    with state_of(config) as state:
        trust = keys.current_trust(state)
        revoked = state.read(lambda stores: stores.signatures.revoked())
    print_text(trust.text().rstrip("\n"))
    for key in revoked:
        print_text(f"# revoked: {key}")


@app.command
def rotate(
    *,
    recovery_key: RecoveryKey,
    token: TokenUri = None,
    replace_recovery_key: Annotated[
        Flag, Parameter(help="The recovery key is a new one; the one before is lost.")
    ] = False,
    config: Config = None,
) -> None:
    """Replace the CA. The trust file lists the new and the previous one, and the recovery key signs it.

    With --token, the new CA is a key in a hardware token, such as
    `pkcs11:token=daybreak?module-path=/usr/lib/module.so&pin-source=/etc/pin`. The
    next rotations use the same token.

    If the recovery key is lost, create another one with `daybreakd init FOLDER`,
    and use it with --replace-recovery-key. Consumers refuse the new trust file
    until they have received it over another channel.

    Statements that the previous CA certified stay valid. Run it on the node of the
    builder.
    """
    settings = settings_of(config)
    with state_of(settings) as state:
        trust = keys.rotate_ca(
            state, settings, recovery_key, now_utc(), token=token, replace_recovery_key=replace_recovery_key
        )
    print_text(f"The trust file is version {trust.version}. The next publication uses the new CA.")
    print_note(f"Copy {settings.signing.folder / 'ca'} to every other node with a builder.")


@app.command
def revoke(
    version: Annotated[int | None, Parameter(help="Version whose signatures are revoked.")] = None,
    *,
    ca: Annotated[Flag, Parameter(help="Revoke all CAs, and create a new one.")] = False,
    recovery_key: Annotated[Path | None, Parameter(help="File of the recovery key, for --ca.")] = None,
    config: Config = None,
) -> None:
    """Revoke the keys of a version, or with --ca all CAs. Consumers refuse what they signed.

    Publish a new snapshot afterwards, so that current files have valid signatures.
    """
    settings = settings_of(config)
    with state_of(settings) as state:
        if ca and version is None:
            if recovery_key is None:
                raise OperatorError("A new CA needs the signature of the recovery key. Add --recovery-key FILE.")
            trust = keys.rotate_ca(state, settings, recovery_key, now_utc(), revoke=True)
            print_text(f"All CAs are revoked. The trust file is version {trust.version}, with a new CA.")
            print_note(f"Copy {settings.signing.folder / 'ca'} to every other node with a builder.")
        elif version is not None and not ca:
            revoked = keys.revoke_publication(state, version, now_utc())
            print_text(f"{format_count(revoked, 'key')} of version {version} revoked.")
        else:
            raise OperatorError("Name a version, or use --ca.")
    print_note("Current files may have no valid signature now. Run `daybreakd snapshot run`.")


@app.command(name="resume-above")
def resume_above(
    version: Annotated[
        int,
        Parameter(help="Highest version that consumers have seen.", validator=Number(gte=1, lte=MAXIMUM_NUMBER)),
    ],
    *,
    config: Config = None,
) -> None:
    """Continue with versions above VERSION, after the state database and the files were restored from a backup.

    Consumers refuse versions that they have seen with other content.
    """
    with state_of(config) as state:
        last = keys.resume_above(state, version, now_utc())
    print_text(f"The next publication is version {last + 1}. Run `daybreakd snapshot run` to publish it now.")
