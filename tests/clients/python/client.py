"""redis-py: runs the commands of a JSON job on standard input, prints their replies as JSON.

The job: {"port": n, "protocol": 2|3, "token": "…"|null, "commands": [[word, …], …]}. The commands go out one by one, then all once more
as one pipeline. Printed: {"single": [reply, …], "pipeline": [reply, …]}; an error reply is {"error": "text"}.
"""
import json
import sys

import redis


def plain(reply):
    if isinstance(reply, redis.exceptions.RedisError):
        return {"error": str(reply)}
    if isinstance(reply, bytes):
        return reply.decode()
    if isinstance(reply, (list, tuple)):
        return [plain(item) for item in reply]
    return reply


def single(client, words):
    try:
        return plain(client.execute_command(*words))
    except redis.exceptions.ResponseError as error:
        return plain(error)


def main():
    job = json.load(sys.stdin)
    client = redis.Redis(port=job["port"], protocol=job["protocol"], password=job["token"])
    singles = [single(client, words) for words in job["commands"]]
    pipeline = client.pipeline(transaction=False)
    for words in job["commands"]:
        pipeline.execute_command(*words)
    piped = [plain(reply) for reply in pipeline.execute(raise_on_error=False)]
    client.close()
    json.dump({"single": singles, "pipeline": piped}, sys.stdout)


main()
