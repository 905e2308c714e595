"""Adapters: how a framework is installed, started, and resumed after a crash. Each is a folder with an `adapter.json`."""

import hashlib
import json
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

# What is pinned, in the folder of an adapter.
PINS = ["requirements.txt", "package.json", "package-lock.json"]


def names():
    """All adapters there are."""
    return sorted(manifest.parent.name for manifest in HERE.glob("adapters/*/adapter.json"))


class Adapter:
    """One of them. Its commands are lists of words in which `{home}` is where it is installed, `{adapter}` its own folder, `{node}`
    the script that finds or installs Node.js, and `{agent}` Bob."""

    def __init__(self, name, agent):
        self.name, self.folder = name, HERE / "adapters" / name
        self.manifest = json.loads((self.folder / "adapter.json").read_text())
        self.home = ROOT / ".tools" / "refund" / name
        node = ROOT / "scripts" / "node.sh"
        self.places = {"{home}": self.home, "{adapter}": self.folder, "{node}": node, "{agent}": agent}

    def command(self, name):
        return self.words(self.manifest[name])

    def words(self, words):
        for place, path in self.places.items():
            words = [word.replace(place, str(path)) for word in words]
        return words

    def install(self):
        """Installs what is pinned beside the manifest, once for each content of the pins."""
        pins = [self.folder / name for name in PINS if (self.folder / name).exists()]
        wanted = hashlib.sha256(b"".join(pin.read_bytes() for pin in pins)).hexdigest()
        marker = self.home / "installed"
        if not pins or (marker.exists() and marker.read_text() == wanted):
            return
        print(f"installing {self.name} into {self.home}", file=sys.stderr)
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True)
        for pin in pins:
            shutil.copy(pin, self.home)
        for step in self.manifest["install"]:
            subprocess.run(self.words(step), cwd=self.home, check=True, stdout=sys.stderr)
        marker.write_text(wanted)

    def version(self):
        run = subprocess.run(self.command("version"), cwd=ROOT, capture_output=True, text=True, check=True)
        return run.stdout.strip()
