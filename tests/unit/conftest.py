"""Unit tests that need more packages than `make test-unit` installs."""

from importlib.util import find_spec

# `make setup` installs these packages. Then nothing is left out.
NEEDS = {
    "aiosmtpd": ("events/test_deliverer.py", "events/test_mails.py", "events/test_poisoned_records.py"),
    "botocore": ("benchmarks/test_jobs.py", "benchmarks/test_load.py", "credentials/test_sigv4.py"),
    "delta_sharing": ("test_share_profile.py",),
    "keyring": ("client/test_sign_in.py",),
    "pyspark": ("sources/spark/test_range_rows.py",),
    "standardwebhooks": ("credentials/test_webhook_secret.py", "events/test_webhooks_delivered.py"),
}
collect_ignore = [file for package, files in NEEDS.items() if find_spec(package) is None for file in files]
