"""Registers, lists and reads a job with a Python client that was made from the server's OpenAPI description.

Usage: check.py DIR ADDRESS [TOKEN], where DIR holds the package `berth_api` that openapi-python-client has made.
"""

import compileall
import sys

directory, address, *token = sys.argv[1:]
assert compileall.compile_dir(f"{directory}/berth_api", quiet=1), "the client does not compile"
sys.path.insert(0, directory)

from berth_api import AuthenticatedClient, Client
from berth_api.api.jobs import list_jobs, read_job, register_job, stop_job
from berth_api.models import ErrorBody, Job, JobRegister

JSON = {"Accept": "application/json"}
if token:
    client = AuthenticatedClient(
        base_url=address, token=token[0], prefix="", auth_header_name="X-Nomad-Token", headers=JSON
    )
else:
    client = Client(base_url=address, headers=JSON)

task = {"Name": "t", "Driver": "raw_exec", "Config": {"command": "/bin/true"}}
job = {"ID": "made-python", "Name": "made-python", "Type": "batch", "TaskGroups": [{"Name": "g", "Tasks": [task]}]}
registered = register_job.sync(client=client, body=JobRegister.from_dict({"Job": job}))
assert registered is not None and registered.eval_id, registered

listed = list_jobs.sync(client=client)
assert "made-python" in [stub.id for stub in listed], listed
read = read_job.sync("made-python", client=client)
assert isinstance(read, Job) and read.task_groups[0].tasks[0].driver == "raw_exec", read

missing = read_job.sync_detailed("made-nothing", client=client)
assert missing.status_code == 404, missing
assert isinstance(missing.parsed, ErrorBody) and missing.parsed.status == 404, missing.parsed
stop_job.sync_detailed("made-python", client=client, purge=True)
