"""Installs one pinned package of Python into this environment, with progress, and resumes after an interruption.

    python local_model_install.py STEP WHAT FOLDER NAME==VERSION

A wheel is downloaded into FOLDER piece by piece: what an earlier run left of it is kept, and the rest is asked for. It
is checked, installed without its dependencies, and removed. Where pip's configuration says more than the address of an
index and a certificate, pip downloads instead, and the bytes that it has written are shown.
"""

import contextlib
import errno
import hashlib
import html.parser
import importlib.metadata
import json
import os
import pathlib
import re
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

DEFAULT_INDEX = "https://pypi.org/simple"
# The address, and whether a certificate has to be read: all that is understood here.
UNDERSTOOD = {"index-url", "cert", "find-links", "timeout", "default-timeout", "retries", "disable-pip-version-check",
              "no-input", "quiet", "verbose", "progress-bar", "no-color", "no-cache-dir", "cache-dir", "user",
              "break-system-packages", "root-user-action", "require-virtualenv", "no-warn-script-location"}
# Seconds without a byte after which a connection counts as broken, and how often it is made again.
SILENCE = 30
ATTEMPTS = 3
PIECE = 64 * 1024
BY_PIP = "downloaded by pip"
WANTS = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"


class Failed(Exception):
    """A sentence that says why the package cannot be installed."""


class Unreachable(Failed):
    """The index or its files cannot be had over the network."""


class Progress:
    """Says each second where a step is: on a terminal in one line, elsewhere in lines that begin with `~ `."""

    def __init__(self, step, what):
        self.step, self.what = step, what
        self.began, self.done, self.of, self.note = time.monotonic(), 0, 0, "starting"
        self.size = 0
        self.ended = threading.Event()

    def text(self):
        seconds = f"{time.monotonic() - self.began:.0f} s"
        if not self.of:
            return f"{self.step}: {self.what}, {self.note}, {seconds}"
        return f"{self.step}: {self.what}, {self.done / 1e6:.1f} of {self.of / 1e6:.1f} MB, {seconds}"

    def tell(self):
        begin, end = ("\r\x1b[K", "") if sys.stderr.isatty() else ("~ ", "\n")
        sys.stderr.write(begin + self.text() + end)
        sys.stderr.flush()

    def __enter__(self):
        def keep_telling():
            while not self.ended.wait(1):
                self.tell()

        self.tell()
        self.teller = threading.Thread(target=keep_telling, daemon=True)
        self.teller.start()
        return self

    def __exit__(self, *failure):
        self.ended.set()
        self.teller.join()
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
        if failure[0] is None:
            size = f", {self.size / 1e6:.1f} MB" if self.size else ""
            seconds = time.monotonic() - self.began
            print(f"{self.step}: {self.what}{size}, done in {seconds:.0f} s", file=sys.stderr, flush=True)


def pip(*arguments):
    return [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]


def settings():
    """pip's configuration by key, or nothing where pip cannot say it."""
    listed = subprocess.run(pip("config", "list"), capture_output=True, text=True, check=False)
    found = {}
    for line in listed.stdout.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if section in ("global", "install", "download", ":env:"):
            found[name] = value.strip("'\"")
    return found


class Links(html.parser.HTMLParser):
    """The files of a page of an index that speaks HTML only."""

    def __init__(self):
        super().__init__()
        self.files = []

    def handle_starttag(self, tag, attributes):
        address = dict(attributes).get("href") if tag == "a" else None
        if address:
            plain, _, fragment = address.partition("#")
            name = urllib.parse.unquote(plain.rsplit("/", 1)[-1])
            known = dict([fragment.split("=", 1)]) if "=" in fragment else {}
            self.files.append({"filename": name, "url": plain, "hashes": known})


class Network:
    """Requests with the certificates that pip was given."""

    def __init__(self, configured):
        self.context = ssl.create_default_context(cafile=configured.get("cert"))

    def open(self, address, **headers):
        request = urllib.request.Request(address, headers={"User-Agent": "bob-local-model", **headers})
        return urllib.request.urlopen(request, timeout=SILENCE, context=self.context)


def reason(error):
    """What a network error says, without Python's wrapping."""
    inner = getattr(error, "reason", error)
    return getattr(inner, "strerror", None) or getattr(inner, "verify_message", None) or str(inner) or repr(error)


def wheel(network, index, name, version):
    """The newest suitable file of this version: its name, address and checksum."""
    from pip._vendor.packaging.tags import sys_tags
    from pip._vendor.packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

    page = f"{index.rstrip('/')}/{canonicalize_name(name)}/"
    with network.open(page, Accept=WANTS) as answer:
        kind, text, base = answer.headers.get_content_type(), answer.read().decode("utf-8", "replace"), answer.url
    if kind.endswith("json"):
        files = json.loads(text)["files"]
    else:
        links = Links()
        links.feed(text)
        files = links.files
    order = {tag: place for place, tag in enumerate(sys_tags())}
    suitable = []
    for file in files:
        try:
            project, is_version, _, tags = parse_wheel_filename(file["filename"])
        except InvalidWheelFilename:
            continue
        places = [order[tag] for tag in tags if tag in order]
        if project == canonicalize_name(name) and str(is_version) == version and places:
            suitable.append((min(places), file))
    if not suitable:
        return None
    file = min(suitable, key=lambda found: found[0])[1]
    return file["filename"], urllib.parse.urljoin(base, file["url"]), file.get("hashes", {}).get("sha256")


def fetch(network, address, part, progress):
    """Downloads what is missing of a file."""
    have = part.stat().st_size if part.exists() else 0
    headers = {"Range": f"bytes={have}-"} if have else {}
    try:
        answer = network.open(address, **headers)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        # Nothing is missing, or more is there than there should be; the checksum says which.
        return
    with answer, open(part, "ab" if answer.status == 206 else "wb", buffering=0) as out:
        progress.done = have if answer.status == 206 else 0
        progress.of = progress.done + int(answer.headers.get("Content-Length") or 0)
        while piece := answer.read(PIECE):
            out.write(piece)
            progress.done += len(piece)
        if progress.of and progress.done < progress.of:
            raise ConnectionError("the connection ended early")
        progress.of = progress.done


def download(network, found, folder, progress):
    name, address, checksum = found
    whole, part = folder / name, folder / f"{name}.part"
    if whole.exists():
        return whole
    for attempt in range(1, ATTEMPTS + 1):
        try:
            fetch(network, address, part, progress)
            break
        except (OSError, urllib.error.URLError) as error:
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                raise
            if attempt == ATTEMPTS:
                host = urllib.parse.urlsplit(address).hostname
                raise Unreachable(f"cannot download {name} from {host}: {reason(error)}") from error
            time.sleep(attempt)
    if checksum and checksum != sha256(part):
        part.unlink()
        raise Failed(f"what was downloaded of {name} is damaged, and was deleted; start again")
    part.rename(whole)
    return whole


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1024 * 1024):
            digest.update(piece)
    return digest.hexdigest()


def is_installed(name, version):
    """Whether it is here, and whole: pip writes the list of its files last."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        there = importlib.metadata.distribution(name)
        return there.version == version and bool(there.read_text("RECORD"))
    return False


def written_by_pip(folder):
    """The bytes that pip has downloaded so far."""
    total = 0
    for file in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += file.stat().st_size
    return total


def install(source, folder, progress):
    """Lets pip install a file, or a package by its name; of what pip says only its last error is told."""
    temporary = folder / "pip"
    temporary.mkdir(exist_ok=True)
    is_download = progress.note == BY_PIP
    command = pip("install", "--quiet", "--no-deps", "--only-binary", ":all:", *source)
    environment = {**os.environ, "TMPDIR": str(temporary)}
    # Its output is not kept on the disk, which may be full.
    running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               env=environment, encoding="utf-8", errors="replace")
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(line.strip() for line in running.stdout if line.strip()))
    reader.start()
    while running.poll() is None:
        time.sleep(0.2)
        if is_download and (done := written_by_pip(temporary)):
            progress.note = f"pip has {done / 1e6:.1f} MB"
    reader.join()
    if running.returncode:
        if any("No space left on device" in line for line in lines):
            raise OSError(errno.ENOSPC, "No space left on device")
        errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")] or lines
        raise Failed(f"pip cannot install {source[-1]}: {errors[-1] if errors else f'exit code {running.returncode}'}")


def main():
    step, what, folder, pin = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4]
    name, version = re.fullmatch(r"(.+)==(.+)", pin).groups()
    folder.mkdir(parents=True, exist_ok=True)
    if is_installed(name, version):
        print(f"{step}: {what} is here already", file=sys.stderr, flush=True)
        return
    configured = settings()
    index = configured.get("index-url", DEFAULT_INDEX)
    is_plain = set(configured) <= UNDERSTOOD and "@" not in index
    try:
        with Progress(step, what) as progress:
            found = None
            if is_plain:
                progress.note = f"asking {urllib.parse.urlsplit(index).hostname}"
                network = Network(configured)
                try:
                    found = wheel(network, index, name, version)
                except (OSError, urllib.error.URLError) as error:
                    raise Unreachable(f"cannot reach {index}: {reason(error)}") from error
            if found is None:
                progress.note = BY_PIP
                install([pin], folder, progress)
            else:
                file = download(network, found, folder, progress)
                progress.of, progress.size, progress.note = 0, file.stat().st_size, "unpacking"
                install(["--no-index", str(file)], folder, progress)
                file.unlink()
    except Unreachable as error:
        sys.exit(f"{error}; connect this machine to the network, or set the key of a provider, such as OPENAI_API_KEY")
    except Failed as error:
        sys.exit(str(error))
    except OSError as error:
        if error.errno == errno.ENOSPC:
            sys.exit(f"the disk is full: there is no more room in {folder}")
        raise


if __name__ == "__main__":
    main()
