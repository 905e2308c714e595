"""What the journals of a tree say: what was used, and what is wrong with them."""
import collections

from trees.place import SESSIONS


def parent_of(records):
    return next((record["body"]["parent"] for record in records if record["kind"] == "options"), None)


def tokens(records):
    """What the session's own model calls used."""
    return sum(
        record["body"]["cost"]["usage"]["total_tokens"]
        for record in records
        if record["kind"] == "answered" and record["body"].get("cost")
    )


def results(records):
    return [record["body"] for record in records if record["kind"] == "result"]


def faults(journals, root, whole=True):
    """What is wrong with the journals of a tree whose root has ended."""
    found = []
    below = {id: parent_of(records) for id, records in journals.items() if id == root or id.startswith(root + ".")}
    children = collections.defaultdict(list)
    for id, parent in below.items():
        if parent:
            children[parent["session"]].append(id)
    begun_by = collections.Counter((parent["session"], parent["turn"], parent["call"]) for parent in below.values() if parent)
    found += [f"{call}: {count} children of one call" for call, count in begun_by.items() if count > 1]
    for id in below:
        kinds = collections.Counter((record["kind"], record["turn"]) for record in journals[id])
        for (kind, turn), count in kinds.items():
            if kind == "started" and count > 1:
                found.append(f"{id}: the turn {turn} began {count} times")
            if kind == "input" and kinds[("outcome", turn)] != 1:
                found.append(f"{id}: the turn {turn} has {kinds[('outcome', turn)]} outcomes")
        calls = collections.Counter((record["turn"], record["body"]["call"]) for record in journals[id] if record["kind"] == "result")
        found += [f"{id}: {count} results of {call}" for call, count in calls.items() if count > 1]

    def used(id):
        return tokens(journals[id]) + sum(used(child) for child in children[id])

    for id in below:
        for child in children[id]:
            name = parent_of(journals[child])["call"]
            result = next((result for result in results(journals[id]) if result["call"] == name), None)
            if result is None or result["status"] == "unknown":
                continue
            counted = (result["output"].get("delegated") or {}).get("usage", {}).get("total_tokens", 0)
            if counted != used(child):
                found.append(f"{id}: {counted} tokens are on the bill for {name}, {used(child)} were used")
    if whole and len(below) != SESSIONS:
        found.append(f"{len(below)} sessions, not {SESSIONS}")
    return found
