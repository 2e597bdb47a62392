"""python-nomad against a running server, whose address is in NOMAD_ADDR."""

import os
import queue
import threading
import time
import unittest

import nomad
from nomad.api.exceptions import BadRequestNomadException, URLNotFoundNomadException

PATIENCE_S = 20


def connect():
    address = os.environ["NOMAD_ADDR"].removeprefix("http://")
    host, port = address.rsplit(":", 1)
    return nomad.Nomad(host=host, port=int(port), timeout=PATIENCE_S)


def job(job_id, count=1):
    """A service that says hello every tenth of a second."""
    task = {
        "Name": "greet",
        "Driver": "raw_exec",
        "Config": {"command": "/bin/sh", "args": ["-c", "while true; do echo hello; sleep 0.1; done"]},
        "Resources": {"CPU": 20, "MemoryMB": 16},
    }
    return {"Job": {"ID": job_id, "Type": "service", "TaskGroups": [{"Name": "app", "Count": count, "Tasks": [task]}]}}


class Clients(unittest.TestCase):
    """Each test has a job of its own, which goes with it."""

    def setUp(self):
        self.nomad = connect()
        self.id = "python-" + self._testMethodName.removeprefix("test_").replace("_", "-")
        self.addCleanup(self.nomad.job.deregister_job, self.id)

    def eventually(self, what, found):
        """Tries until something is found: what tells of it comes from processes that take their time."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            value = found()
            if value not in (None, False, ""):
                return value
            time.sleep(0.05)
        return self.fail(f"{what} after {PATIENCE_S} s")

    def running(self, count):
        """The job's allocations once so many of them run."""

        def found():
            allocs = self.nomad.job.get_allocations(self.id)
            allocs = [alloc for alloc in allocs if alloc["ClientStatus"] == "running"]
            return allocs if len(allocs) == count else None

        return self.eventually(f"not {count} allocations run", found)

    def test_a_job_is_registered_read_and_stopped(self):
        registered = self.nomad.job.register_job(self.id, job(self.id, count=2))
        self.assertTrue(registered["EvalID"])
        self.running(2)
        self.assertIn(self.id, self.nomad.jobs)
        self.assertEqual(self.nomad.job[self.id]["Status"], "running")
        summary = self.nomad.job.get_summary(self.id)["Summary"]["app"]
        self.assertEqual((summary["Running"], summary["Queued"]), (2, 0))
        evaluation = self.nomad.evaluation.get_evaluation(registered["EvalID"])
        self.assertEqual((evaluation["JobID"], evaluation["Status"]), (self.id, "complete"))
        self.assertEqual(len(self.nomad.evaluation.get_allocations(registered["EvalID"])), 2)
        self.nomad.job.deregister_job(self.id)
        self.running(0)
        self.eventually("the job is not dead", lambda: self.nomad.job[self.id]["Status"] == "dead")

    def test_a_plan_says_what_differs(self):
        self.nomad.job.register_job(self.id, job(self.id))
        self.running(1)
        plan = self.nomad.job.plan_job(self.id, job(self.id, count=3), diff=True)
        self.assertEqual(plan["Annotations"]["DesiredTGUpdates"]["app"]["Place"], 2)
        count = plan["Diff"]["TaskGroups"][0]["Fields"][0]
        self.assertEqual((count["Name"], count["Old"], count["New"]), ("Count", "1", "3"))
        self.assertEqual(len(self.running(1)), 1, "a plan changes nothing")

    def test_a_group_is_scaled_and_the_job_goes_back(self):
        self.nomad.job.register_job(self.id, job(self.id))
        self.running(1)
        body = {"Count": 3, "Target": {"Group": "app"}, "Message": "more"}
        self.nomad.job.request(self.id, "scale", json=body, method="post")
        self.running(3)
        status = self.nomad.job.request(self.id, "scale", method="get").json()["TaskGroups"]["app"]
        self.assertEqual((status["Desired"], status["Events"][0]["Message"]), (3, "more"))
        self.assertEqual(len(self.nomad.job.get_versions(self.id)["Versions"]), 2)
        self.nomad.job.revert_job(self.id, 0)
        self.running(1)

    def test_what_a_task_prints_is_read(self):
        self.nomad.job.register_job(self.id, job(self.id))
        alloc = self.running(1)[0]["ID"]

        def logs():
            return self.nomad.client.stream_logs.stream(alloc, "greet", "stdout", plain=True)

        self.assertIn("hello\n", self.eventually("nothing is logged", logs))

    def test_a_reader_waits_for_a_change(self):
        self.nomad.job.register_job(self.id, job(self.id))
        index = self.nomad.job.request(self.id, method="get").headers["X-Nomad-Index"]
        scale = {"Count": 2, "Target": {"Group": "app"}}
        timer = threading.Timer(0.3, self.nomad.job.request, (self.id, "scale"), {"json": scale, "method": "post"})
        timer.start()
        count = 0
        while count != 2:
            answer = self.nomad.job.request(self.id, params={"index": index, "wait": "10s"}, method="get")
            self.assertGreater(int(answer.headers["X-Nomad-Index"]), int(index), "nothing changed in 10 s")
            index = answer.headers["X-Nomad-Index"]
            count = answer.json()["TaskGroups"][0]["Count"]
        timer.join()

    def test_events_are_followed(self):
        topics = {"topic": f"Job:{self.id}"}
        stream, stop, events = self.nomad.event.stream.get_stream(topic=topics["topic"], timeout=PATIENCE_S)
        stream.daemon = True
        stream.start()

        def told():
            # Until the stream is open, registering again is all that can be done about it.
            self.nomad.job.register_job(self.id, job(self.id))
            try:
                # The first line is a heartbeat, and the job may start before anything else is told of it.
                seen = (events.get(timeout=0.2) or {}).get("Events") or []
            except queue.Empty:
                return None
            return next((event for event in seen if event["Type"] == "JobRegistered"), None)

        event = self.eventually("no event came", told)
        self.assertEqual((event["Topic"], event["Key"]), ("Job", self.id))
        self.assertEqual(event["Payload"]["Job"]["ID"], self.id)
        stop.set()

    def test_nodes_and_servers_are_read(self):
        self.nomad.job.register_job(self.id, job(self.id))
        node = self.nomad.nodes.get_nodes()[0]
        self.assertEqual(self.nomad.node.get_node(node["ID"])["Status"], "ready")
        self.assertEqual(self.nomad.agent.get_members()["Members"][0]["Status"], "alive")
        self.assertTrue(self.nomad.status.leader.get_leader())
        self.assertEqual(self.nomad.search.search(self.id, "jobs")["Matches"]["jobs"], [self.id])
        self.assertEqual(self.nomad.namespaces.get_namespaces()[0]["Name"], "default")

    def test_mistakes_are_told(self):
        wrong = job(self.id)
        wrong["Job"]["Priority"] = 1000
        with self.assertRaises(BadRequestNomadException) as refused:
            self.nomad.job.register_job(self.id, wrong)
        self.assertIn("riority", refused.exception.nomad_resp.text)
        with self.assertRaises(URLNotFoundNomadException):
            self.nomad.job.get_job("python-nobody")
        self.nomad.job.register_job(self.id, job(self.id))


if __name__ == "__main__":
    unittest.main()
