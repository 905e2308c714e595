"""What the scripts share that measure with a PostgreSQL: its client, and the configuration of a scripted model."""
import os
import shutil
import subprocess
import sys

PSQL = shutil.which("psql") or "/usr/lib/postgresql/15/bin/psql"

CONFIG = """[runtime]
default_model = "demo:one"
{runtime}
[providers.demo]
kind = "scripted"
script = "script.json"

[store]
{store}
"""


def configured(store, runtime=""):
    """The text of a configuration; the model answers from script.json beside it."""
    return CONFIG.format(store=store, runtime=runtime)


def postgres(url):
    return f'kind = "postgres"\nurl = "{url}"'


def sql(url, text):
    """What statements answer, a row a line."""
    done = subprocess.run([PSQL, "-v", "ON_ERROR_STOP=1", "-Atq", url], input=text, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{os.path.basename(sys.argv[0])}: psql: {done.stderr.strip()}")
    return done.stdout.strip()
