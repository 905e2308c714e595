#!/usr/bin/env python3
"""Makes actors/src/models/snapshot.tsv, the catalogue of models that is built in, from a published package.

The package is litellm (PyPI, MIT), which carries a map of prices and capabilities. Kept are chat models of the providers
that are built in (actors/src/llm/providers/known.rs), have a price and are not retired today; not those of Ollama, whose models
are what was pulled. Nothing but the map is used of the package.

    scripts/models-snapshot.py                                           # the newest release
    scripts/models-snapshot.py --version 1.110.2 --date 2026-11-25       # the same file again
"""

import argparse
import datetime
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "litellm"
MEMBER = "litellm/model_prices_and_context_window_backup.json"
TARGET = pathlib.Path(__file__).resolve().parent.parent / "actors/src/models/snapshot.tsv"

# The package's names of providers, and ours.
PROVIDERS = {
    "openai": "openai", "anthropic": "anthropic", "gemini": "gemini", "groq": "groq", "xai": "xai",
    "deepseek": "deepseek", "mistral": "mistral", "openrouter": "openrouter", "together_ai": "together",
    "fireworks_ai": "fireworks", "moonshot": "moonshot",
}
ABILITIES = [
    ("tool_use", "supports_function_calling"), ("vision", "supports_vision"), ("audio", "supports_audio_input"),
    ("reasoning", "supports_reasoning"), ("json_mode", "supports_response_schema"),
]
MOST_BYTES = 300_000


def number(value):
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def per_million(value):
    """A price for a token as one for a million, without the noise of binary fractions."""
    value = number(value)
    return "" if value is None else f"{round(value * 1e6, 6):.6f}".rstrip("0").rstrip(".")


COSTS = ["input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost", "cache_creation_input_token_cost"]
ABOVE = re.compile(f"(?:{'|'.join(COSTS)})(_above_(\\d+)k_tokens)")


def tiers(entry):
    """The prices of prompts above a size, the smallest first; an input or output price that is missing is that of all prompts."""
    found = {}
    for suffix, thousands in filter(None, (match and match.groups() for match in map(ABOVE.fullmatch, entry))):
        found[int(thousands) * 1000] = [entry.get(key + suffix) for key in COSTS]
    for part in entry.get("tiered_pricing") or []:
        if part.get("range") and part["range"][0]:
            found[int(part["range"][0])] = [part.get(key) for key in COSTS]
    for above, costs in sorted(found.items()):
        whole = [entry.get(key) if cost is None and at < 2 else cost for at, (key, cost) in enumerate(zip(COSTS, costs))]
        yield f"{above}:{','.join(map(per_million, whole))}"


def row(name, entry):
    context = number(entry.get("max_input_tokens")) or number(entry.get("max_tokens"))
    return [
        name,
        str(int(context)) if context else "",
        str(int(number(entry.get("max_output_tokens")) or 0) or ""),
        per_million(entry.get("input_cost_per_token")),
        per_million(entry.get("output_cost_per_token")),
        per_million(entry.get("cache_read_input_token_cost")),
        per_million(entry.get("cache_creation_input_token_cost")),
        ",".join(word for word, key in ABILITIES if entry.get(key) is True),
        ";".join(tiers(entry)),
    ]


def rows(prices, today):
    for key, entry in prices.items():
        ours = isinstance(entry, dict) and PROVIDERS.get(entry.get("litellm_provider"))
        if not ours or entry.get("mode") != "chat" or key.startswith("ft:"):
            continue
        retired = entry.get("deprecation_date")
        if isinstance(retired, str) and retired <= today:
            continue
        model = key.removeprefix(entry["litellm_provider"] + "/")
        # A price of nothing, or none, is that of a preview or of a range of models: neither is a model to select.
        if not model or any(c.isspace() for c in model) or not number(entry.get("input_cost_per_token")):
            continue
        yield row(f"{ours}:{model}", entry)


def wheel(version, folder):
    wanted = f"{PACKAGE}=={version}" if version else PACKAGE
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, wanted], check=True)
    return next(pathlib.Path(folder).glob("*.whl"))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--version", help="the release of the package")
    arguments.add_argument("--wheel", type=pathlib.Path, help="a release that was downloaded before")
    arguments.add_argument("--date", default=datetime.date.today().isoformat(), help="today, as the file says it")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = given.wheel or wheel(given.version, folder)
        with zipfile.ZipFile(path) as package:
            prices = json.loads(package.read(MEMBER))
            version = path.name.split("-")[1]
            licence = next(package.read(name).decode() for name in package.namelist() if name.endswith("licenses/LICENSE"))
    if "MIT" not in licence:
        sys.exit("the licence of the package is no longer MIT: look before using it")
    kept = sorted(set(map(tuple, rows(prices, given.date))))
    holders = [line.strip() for line in licence.splitlines() if line.strip().startswith("Copyright")]
    head = [
        "# bob-models 1",
        f"# source: {PACKAGE} {version} on PyPI, {MEMBER}",
        f"# date: {given.date}",
        f"# licence: MIT; {'; '.join(holders)}",
        "# name\tcontext\toutput\tinput price\toutput price\tcached price\tcache write price\tabilities\ttiers",
    ]
    text = "\n".join(head + ["\t".join(row).rstrip("\t") for row in kept]) + "\n"
    if len(text.encode()) > MOST_BYTES:
        sys.exit(f"the catalogue has {len(text.encode())} bytes; at most {MOST_BYTES} are taken")
    TARGET.write_text(text)
    print(f"{TARGET}: {len(kept)} models, {len(text.encode())} bytes")


if __name__ == "__main__":
    main()
