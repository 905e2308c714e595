#!/bin/sh
# Records the tapes of tests/fixtures/tapes anew: after a change of what models are asked, which is what a replay notices.
# Look at what has changed before it is kept: `git diff --stat tests/fixtures`, and `scripts/growth.sh` for its price.
#
#   sh scripts/record-fixtures.sh              the scripted ones; takes seconds, needs nothing
#   sh scripts/record-fixtures.sh --real       the others, too: a real small model (installed on first use, as
#                                              scripts/local-model.sh does) and two real tool servers, which must be on
#                                              the PATH: npm i @modelcontextprotocol/server-filesystem \
#                                              @modelcontextprotocol/server-everything, and add node_modules/.bin
set -eu
cd -- "$(dirname -- "$0")/.."

BOB_RECORD_TAPES=1 cargo test --test whole every_recorded_turn
[ "${1-}" = --real ] || exit 0

cargo build --bin cli-agent
binary=$(cargo build --bin cli-agent --message-format=json 2>/dev/null |
    python3 -c 'import json, sys; print(next(p for p in (json.loads(l).get("executable") for l in sys.stdin if l.startswith("{")) if p))')
for tool in mcp-server-filesystem mcp-server-everything; do
    command -v "$tool" >/dev/null || { echo "$tool is not on the PATH; see the head of this script" >&2; exit 1; }
done
sh scripts/local-model.sh --install-only
fixtures=$PWD/tests/fixtures/tapes/real
for config in "$fixtures"/*.toml; do
    name=$(basename "$config" .toml)
    folder=$(mktemp -d)
    cp "$config" "$folder/agent.toml"
    cp -r scripts "$folder/scripts"
    ln -s "$PWD/.tools" "$folder/.tools"
    mkdir "$folder/docs"
    echo "Nothing yet." >"$folder/docs/guide.md"
    echo "Nothing yet." >"$folder/docs/faq.md"
    echo "Buy apples and pears." >"$folder/notes.txt"
    rm -f "$fixtures/$name.tape"
    # One at a time: the order in which sessions come does not change what they say, and the model has one place.
    (cd "$folder" && "$binary" --config agent.toml batch --concurrency 1 \
        --tape "record:$fixtures/$name.tape" "$fixtures/$name.jsonl") || echo "$name: not every turn has its final answer, which is as good" >&2
    : >"$fixtures/$name.journal"
    python3 -c 'import json, sys; print("\n".join(dict.fromkeys(json.loads(l)["session"] for l in open(sys.argv[1]))))' "$fixtures/$name.jsonl" |
        while read -r session; do
            (cd "$folder" && "$binary" --config agent.toml sessions export "$session") >>"$fixtures/$name.journal"
        done
    chmod 644 "$fixtures/$name.tape"
    rm -rf "$folder"
done
