"""An object store for tests: the S3 of moto.

usage: store.py FOLDER; prints its address. At the end of stdin, puts all objects into FOLDER.
"""

import pathlib
import sys

import boto3
from moto.server import ThreadedMotoServer

BUCKET = "fleet"


def main():
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    client = boto3.client("s3", "us-east-1", endpoint_url=address)
    client.create_bucket(Bucket=BUCKET)
    print(address, flush=True)
    sys.stdin.read()
    for item in client.list_objects_v2(Bucket=BUCKET).get("Contents", []):
        place = pathlib.Path(sys.argv[1], item["Key"])
        place.parent.mkdir(parents=True, exist_ok=True)
        client.download_file(BUCKET, item["Key"], str(place))
    server.stop()


main()
