# An echo server on port 80 of the address given, and a client that reaches it through the proxy.
import asyncio
import sys

from websockets.asyncio.client import connect
from websockets.asyncio.server import serve


async def echo(socket):
    async for message in socket:
        await socket.send("echo: " + message)


async def main():
    async with serve(echo, sys.argv[1], 80):
        async with connect("ws://ws.example/chat") as socket:
            await socket.send("hello")
            print(await socket.recv())


asyncio.run(main())
