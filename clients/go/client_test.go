// Package clients drives a running server through Nomad's own Go package. NOMAD_ADDR has the server's address.
package clients

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

const patience = 20 * time.Second

// A job of the test's own, which goes with it.
func register(t *testing.T, client *api.Client, count int) *api.Job {
	t.Helper()
	id := strings.ToLower(t.Name())
	task := api.NewTask("greet", "raw_exec").
		SetConfig("command", "/bin/sh").
		SetConfig("args", []string{"-c", "while true; do echo hello; sleep 0.1; done"}).
		Require(&api.Resources{CPU: pointer(20), MemoryMB: pointer(16)})
	job := api.NewServiceJob(id, id, "global", 50).AddTaskGroup(api.NewTaskGroup("app", count).AddTask(task))
	registered, _, err := client.Jobs().Register(job, nil)
	must(t, err)
	if registered.EvalID == "" {
		t.Fatal("the registration has no evaluation")
	}
	t.Cleanup(func() { _, _, _ = client.Jobs().Deregister(id, false, nil) })
	return job
}

func pointer[T any](value T) *T { return &value }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func connect(t *testing.T) *api.Client {
	t.Helper()
	client, err := api.NewClient(api.DefaultConfig())
	must(t, err)
	return client
}

// The job's allocations once so many of them run; waits by blocking queries.
func running(t *testing.T, client *api.Client, job *api.Job, count int) []*api.AllocationListStub {
	t.Helper()
	query := &api.QueryOptions{WaitTime: time.Second}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		allocs, meta, err := client.Jobs().Allocations(*job.ID, false, query)
		must(t, err)
		var found []*api.AllocationListStub
		for _, alloc := range allocs {
			if alloc.ClientStatus == api.AllocClientStatusRunning {
				found = append(found, alloc)
			}
		}
		if len(found) == count {
			return found
		}
		query.WaitIndex = meta.LastIndex
	}
	t.Fatalf("not %d allocations run after %s", count, patience)
	return nil
}

func TestRegisterReadStop(t *testing.T) {
	client := connect(t)
	job := register(t, client, 2)
	running(t, client, job, 2)
	info, _, err := client.Jobs().Info(*job.ID, nil)
	must(t, err)
	if *info.Status != "running" || *info.TaskGroups[0].Count != 2 {
		t.Errorf("status %s, count %d", *info.Status, *info.TaskGroups[0].Count)
	}
	summary, _, err := client.Jobs().Summary(*job.ID, nil)
	must(t, err)
	if got := summary.Summary["app"].Running; got != 2 {
		t.Errorf("%d run by the summary", got)
	}
	evaluations, _, err := client.Jobs().Evaluations(*job.ID, nil)
	must(t, err)
	if len(evaluations) == 0 || evaluations[0].JobID != *job.ID {
		t.Errorf("evaluations: %v", evaluations)
	}
	_, _, err = client.Jobs().Deregister(*job.ID, false, nil)
	must(t, err)
	running(t, client, job, 0)
}

func TestPlan(t *testing.T) {
	client := connect(t)
	job := register(t, client, 1)
	running(t, client, job, 1)
	job.TaskGroups[0].Count = pointer(3)
	plan, meta, err := client.Jobs().Plan(job, true, nil)
	must(t, err)
	if meta.LastIndex != plan.JobModifyIndex {
		t.Errorf("the header has index %d, the job %d", meta.LastIndex, plan.JobModifyIndex)
	}
	if got := plan.Annotations.DesiredTGUpdates["app"].Place; got != 2 {
		t.Errorf("%d would be placed", got)
	}
	if group := plan.Diff.TaskGroups[0]; group.Type != "Edited" || group.Fields[0].New != "3" {
		t.Errorf("diff: %+v", group)
	}
	// What was planned is what is registered, or nothing.
	_, _, err = client.Jobs().EnforceRegister(job, plan.JobModifyIndex, nil)
	must(t, err)
	_, _, err = client.Jobs().EnforceRegister(job, plan.JobModifyIndex, nil)
	if err == nil || !strings.Contains(err.Error(), api.RegisterEnforceIndexErrPrefix) {
		t.Errorf("a second registration at the same index: %v", err)
	}
}

func TestNodeIsEvaluatedAndKeepsWhatBefellIt(t *testing.T) {
	client := connect(t)
	nodes, _, err := client.Nodes().List(nil)
	must(t, err)
	_, _, err = client.Nodes().ForceEvaluate(nodes[0].ID, nil)
	must(t, err)
	node, _, err := client.Nodes().Info(nodes[0].ID, nil)
	must(t, err)
	if len(node.Events) == 0 || node.Events[0].Message == "" || node.Events[0].Timestamp.IsZero() {
		t.Errorf("events: %+v", node.Events)
	}
	servers, err := client.Agent().Servers()
	must(t, err)
	if len(servers) != 1 {
		t.Errorf("servers of agents: %v", servers)
	}
	if err := client.Agent().SetServers(servers); err == nil || !strings.Contains(err.Error(), "--servers") {
		t.Errorf("a server does not change them: %v", err)
	}
}

func TestScaleAndRevert(t *testing.T) {
	client := connect(t)
	job := register(t, client, 1)
	running(t, client, job, 1)
	_, _, err := client.Jobs().Scale(*job.ID, "app", pointer(3), "more", false, map[string]any{"by": "test"}, nil)
	must(t, err)
	running(t, client, job, 3)
	status, _, err := client.Jobs().ScaleStatus(*job.ID, nil)
	must(t, err)
	if group := status.TaskGroups["app"]; group.Desired != 3 || group.Events[0].Message != "more" {
		t.Errorf("scale status: %+v", group)
	}
	versions, diffs, _, err := client.Jobs().Versions(*job.ID, true, nil)
	must(t, err)
	if len(versions) != 2 || len(diffs) != 1 {
		t.Errorf("%d versions, %d diffs", len(versions), len(diffs))
	}
	_, _, err = client.Jobs().Revert(*job.ID, 0, pointer(uint64(1)), nil, "", "")
	must(t, err)
	running(t, client, job, 1)
}

func TestLogs(t *testing.T) {
	client := connect(t)
	job := register(t, client, 1)
	stub := running(t, client, job, 1)[0]
	alloc, _, err := client.Allocations().Info(stub.ID, nil)
	must(t, err)
	cancel := make(chan struct{})
	defer close(cancel)
	frames, errors := client.AllocFS().Logs(alloc, true, "greet", "stdout", "start", 0, cancel, nil)
	for timeout := time.After(patience); ; {
		select {
		case frame := <-frames:
			if strings.Contains(string(frame.Data), "hello\n") {
				return
			}
		case err := <-errors:
			t.Fatal(err)
		case <-timeout:
			t.Fatalf("nothing is logged after %s", patience)
		}
	}
}

func TestBlockingQuery(t *testing.T) {
	client := connect(t)
	job := register(t, client, 1)
	running(t, client, job, 1)
	_, meta, err := client.Jobs().Info(*job.ID, nil)
	must(t, err)
	time.AfterFunc(300*time.Millisecond, func() {
		_, _, _ = client.Jobs().Scale(*job.ID, "app", pointer(2), "", false, nil, nil)
	})
	info, after, err := client.Jobs().Info(*job.ID, &api.QueryOptions{WaitIndex: meta.LastIndex, WaitTime: patience})
	must(t, err)
	if after.LastIndex <= meta.LastIndex || *info.TaskGroups[0].Count != 2 {
		t.Errorf("index %d after %d, count %d", after.LastIndex, meta.LastIndex, *info.TaskGroups[0].Count)
	}
}

func TestEventStream(t *testing.T) {
	client := connect(t)
	job := register(t, client, 1)
	info, meta, err := client.Jobs().Info(*job.ID, nil)
	must(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	topics := map[api.Topic][]string{api.TopicJob: {*job.ID}, api.TopicAllocation: {*job.ID}}
	// From the job's registration on.
	events, err := client.EventStream().Stream(ctx, topics, *info.CreateIndex, nil)
	must(t, err)
	var sawJob, sawRunning bool
	for batch := range events {
		must(t, batch.Err)
		for _, event := range batch.Events {
			if job, err := event.Job(); err == nil && job != nil {
				sawJob = true
			}
			if alloc, err := event.Allocation(); err == nil && alloc != nil && alloc.ClientStatus == "running" {
				sawRunning = true
			}
		}
		if sawJob && sawRunning {
			return
		}
	}
	t.Errorf("job told: %t, running allocation told: %t, since index %d", sawJob, sawRunning, meta.LastIndex)
}

func TestListsAreFilteredAndPaged(t *testing.T) {
	client := connect(t)
	job := register(t, client, 1)
	found, _, err := client.Jobs().List(&api.QueryOptions{Filter: `ID == "` + *job.ID + `"`})
	must(t, err)
	if len(found) != 1 || found[0].ID != *job.ID {
		t.Errorf("found %v", found)
	}
	_, _, err = client.Jobs().List(&api.QueryOptions{Filter: "Nothing == x"})
	if err == nil || !strings.Contains(err.Error(), "there is no member") {
		t.Errorf("an unknown member: %v", err)
	}
	first, meta, err := client.Evaluations().List(&api.QueryOptions{PerPage: 1})
	must(t, err)
	if len(first) != 1 {
		t.Errorf("a page of %d, next %q", len(first), meta.NextToken)
	}
}

func TestServersAndNodes(t *testing.T) {
	client := connect(t)
	leader, err := client.Status().Leader()
	must(t, err)
	raft, err := client.Operator().RaftGetConfiguration(nil)
	must(t, err)
	if len(raft.Servers) != 1 || raft.Servers[0].Address != leader {
		t.Errorf("leader %s, servers %+v", leader, raft.Servers)
	}
	health, _, err := client.Operator().AutopilotServerHealth(nil)
	must(t, err)
	if !health.Healthy {
		t.Errorf("health: %+v", health)
	}
	nodes, _, err := client.Nodes().List(nil)
	must(t, err)
	node, _, err := client.Nodes().Info(nodes[0].ID, nil)
	must(t, err)
	if node.Status != "ready" {
		t.Errorf("node: %+v", node)
	}
	pools, _, err := client.NodePools().List(nil)
	must(t, err)
	if len(pools) < 2 {
		t.Errorf("pools: %+v", pools)
	}
	must(t, client.System().GarbageCollect())
}

func TestExecSignalRestart(t *testing.T) {
	client := connect(t)
	job := register(t, client, 1)
	stub := running(t, client, job, 1)[0]
	alloc, _, err := client.Allocations().Info(stub.ID, nil)
	must(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	sizes := make(chan api.TerminalSize)
	command := []string{"/bin/sh", "-c", "cat; echo $NOMAD_TASK_NAME; echo oops >&2; exit 7"}
	stdin := strings.NewReader("typed\n")
	code, err := client.Allocations().Exec(ctx, alloc, "greet", false, command, stdin, &stdout, &stderr, sizes, nil)
	must(t, err)
	if code != 7 || stdout.String() != "typed\ngreet\n" || stderr.String() != "oops\n" {
		t.Errorf("exit code %d, output %q and %q", code, stdout.String(), stderr.String())
	}
	_, err = client.Allocations().Exec(ctx, alloc, "nope", false, command, stdin, &stdout, &stderr, sizes, nil)
	if err == nil || !strings.Contains(err.Error(), "nope") {
		t.Errorf("a task that is not there: %v", err)
	}
	must(t, client.Allocations().Signal(alloc, nil, "greet", "SIGCONT"))
	must(t, client.Allocations().Restart(alloc, "greet", nil))
	usage, err := client.Allocations().Stats(alloc, nil)
	if err == nil && usage.Tasks["greet"] == nil {
		t.Errorf("usage: %+v", usage)
	}
	host, err := client.Nodes().Stats(alloc.NodeID, nil)
	must(t, err)
	if host.Memory.Total == 0 || len(host.CPU) == 0 {
		t.Errorf("host: %+v", host)
	}
}
