"""python-nomad with tokens, against a server with ACLs, whose address is in NOMAD_ADDR and whose first token is in NOMAD_TOKEN."""

import os
import time
import unittest
import unittest.mock

import nomad
from nomad.api.exceptions import BaseNomadException
from test_client import PATIENCE_S, job

RULES = """
namespace "default" {
  policy = "read"
  variables {
    path "open/*" { capabilities = ["read"] }
  }
}
"""


def status(ask):
    """What a request is answered with; 200 for what was asked for."""
    try:
        ask()
    except BaseNomadException as refused:
        return refused.nomad_resp.status_code
    return 200


class Tokens(unittest.TestCase):
    def setUp(self):
        self.management = self.connect(os.environ["NOMAD_TOKEN"])
        policy = {"Name": "python-reader", "Rules": RULES}
        self.management.acl.create_policy(policy["Name"], policy)
        token = {"Name": "reader", "Type": "client", "Policies": [policy["Name"]]}
        self.token = self.management.acl.create_token(token)
        self.addCleanup(self.management.acl.delete_token, self.token["AccessorID"])
        self.reader = self.connect(self.token["SecretID"])
        self.nobody = self.connect("")

    def connect(self, secret):
        """A client that shows this, and not what the environment says."""
        with unittest.mock.patch.dict(os.environ, NOMAD_TOKEN=secret):
            return nomad.Nomad(timeout=PATIENCE_S)

    def write(self, path):
        """Writes a variable as soon as the server has what it encrypts it with."""
        variable = {"Path": path, "Items": {"key": "value"}}
        deadline = time.monotonic() + PATIENCE_S
        while status(lambda: self.management.variable.create_variable(path, variable)) != 200:
            self.assertLess(time.monotonic(), deadline, "no variable is written")
            time.sleep(0.1)
        self.addCleanup(self.management.variable.delete_variable, path)

    def test_tokens_open_what_they_are_for(self):
        name = "python-tokens"
        self.management.job.register_job(name, job(name))
        self.addCleanup(self.management.job.deregister_job, name)
        self.write("open/b")
        self.write("shut/b")
        variable = {"Path": "open/c", "Items": {"key": "value"}}
        rows = [
            ("list jobs", 200, lambda client: client.jobs.get_jobs()),
            ("read a job", 200, lambda client: client.job.get_job(name)),
            ("register a job", 403, lambda client: client.job.register_job(name, job(name, count=2))),
            ("read its status", 200, lambda client: client.job.get_summary(name)),
            ("list nodes", 403, lambda client: client.nodes.get_nodes()),
            ("read a variable", 200, lambda client: client.variable.get_variable("open/b")),
            ("read another", 403, lambda client: client.variable.get_variable("shut/b")),
            ("write a variable", 403, lambda client: client.variable.create_variable("open/c", variable)),
            ("who it is", 200, lambda client: client.acl.get_self_token()),
            ("list tokens", 403, lambda client: client.acl.get_tokens()),
            ("read its own policy", 200, lambda client: client.acl.get_policy("python-reader")),
            ("make a policy", 403, lambda client: client.acl.create_policy("other", {"Name": "other", "Rules": RULES})),
        ]
        for what, expected, ask in rows:
            with self.subTest(what):
                self.assertEqual(status(lambda ask=ask: ask(self.management)), 200)
                self.assertEqual(status(lambda ask=ask: ask(self.reader)), expected)
                self.assertEqual(status(lambda ask=ask: ask(self.nobody)), 403)

    def test_a_token_that_was_deleted_opens_nothing(self):
        token = self.management.acl.create_token({"Name": "brief", "Type": "management"})
        brief = self.connect(token["SecretID"])
        self.assertEqual(status(brief.jobs.get_jobs), 200)
        self.management.acl.delete_token(token["AccessorID"])
        self.assertEqual(status(brief.jobs.get_jobs), 403)


if __name__ == "__main__":
    unittest.main()
