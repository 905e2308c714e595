"""Prints each span and metric that the receiver `oteltap` gets as a line of JSON; the first line has the port."""

import asyncio
import json
import socket

from oteltap import OtelTapHttpProtobufReceiver, OtelTapHttpProtobufReceiverSettings


def tell(**line):
    print(json.dumps(line), flush=True)


def span(one):
    tell(kind="span", trace=one.trace_id.hex(), id=one.span_id.hex(), parent=one.parent_span_id.hex(), state=one.trace_state,
         flags=one.flags, name=one.name)


async def receive():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    async with OtelTapHttpProtobufReceiver(OtelTapHttpProtobufReceiverSettings(http_port=port)) as receiver:
        tell(kind="port", port=port)

        async def spans():
            async for one in receiver.stream_traces():
                span(one)

        async def metrics():
            async for one in receiver.stream_metrics():
                tell(kind="metric", name=one.name)

        await asyncio.gather(spans(), metrics())


asyncio.run(receive())
