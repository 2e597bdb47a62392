package clients

import (
	"context"
	"errors"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

// What a request is answered with; 0 for what was asked for.
func status(err error) int {
	var unexpected api.UnexpectedResponseError
	if errors.As(err, &unexpected) {
		return unexpected.StatusCode()
	}
	if err != nil {
		return -1
	}
	return 0
}

func with(t *testing.T, secret string) *api.Client {
	t.Helper()
	client := connect(t)
	client.SetSecretID(secret)
	return client
}

// Writes a variable as soon as the server has what it encrypts it with.
func write(t *testing.T, client *api.Client, path string) {
	t.Helper()
	variable := &api.Variable{Path: path, Items: api.VariableItems{"key": "value"}}
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if _, _, err = client.Variables().Create(variable, nil); err == nil {
			t.Cleanup(func() { _, _ = client.Variables().Delete(path, nil) })
			return
		}
	}
	t.Fatal(err)
}

// A client with a token that reads one namespace, and the token.
func reader(t *testing.T, management *api.Client) (*api.Client, *api.ACLToken) {
	t.Helper()
	policy := &api.ACLPolicy{Name: "go-reader", Rules: `
		namespace "default" {
		  policy = "read"
		  variables {
		    path "open/*" { capabilities = ["read"] }
		  }
		}`}
	_, err := management.ACLPolicies().Upsert(policy, nil)
	must(t, err)
	asked := &api.ACLToken{Name: "reader", Type: "client", Policies: []string{policy.Name}}
	token, _, err := management.ACLTokens().Create(asked, nil)
	must(t, err)
	t.Cleanup(func() { _, _ = management.ACLTokens().Delete(token.AccessorID, nil) })
	return with(t, token.SecretID), token
}

// Needs a server with ACLs, and its first token in NOMAD_TOKEN.
func TestTokensOpenWhatTheyAreFor(t *testing.T) {
	if os.Getenv("NOMAD_TOKEN") == "" {
		t.Fatal("NOMAD_TOKEN is empty")
	}
	management := connect(t)
	job := register(t, management, 1)
	alloc := running(t, management, job, 1)[0]
	write(t, management, "open/a")
	write(t, management, "shut/a")
	reads, token := reader(t, management)
	nobody := with(t, "")
	stream := func(client *api.Client) error {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		_, err := client.EventStream().Stream(ctx, map[api.Topic][]string{api.TopicJob: {*job.ID}}, 0, nil)
		return err
	}
	const refused = http.StatusForbidden
	for _, row := range []struct {
		what           string
		reader, nobody int
		ask            func(*api.Client) error
	}{
		{"list jobs", 0, refused, func(c *api.Client) error { _, _, err := c.Jobs().List(nil); return err }},
		{"read a job", 0, refused, func(c *api.Client) error { _, _, err := c.Jobs().Info(*job.ID, nil); return err }},
		{"register a job", refused, refused, func(c *api.Client) error { _, _, err := c.Jobs().Register(job, nil); return err }},
		{"plan a job", refused, refused, func(c *api.Client) error { _, _, err := c.Jobs().Plan(job, false, nil); return err }},
		{"stop a job", refused, refused, func(c *api.Client) error { _, _, err := c.Jobs().Deregister(*job.ID, false, nil); return err }},
		{"scale a job", refused, refused, func(c *api.Client) error {
			_, _, err := c.Jobs().Scale(*job.ID, "app", pointer(2), "", false, nil, nil)
			return err
		}},
		{"read an allocation", 0, refused, func(c *api.Client) error { _, _, err := c.Allocations().Info(alloc.ID, nil); return err }},
		{"stop an allocation", refused, refused, func(c *api.Client) error {
			_, err := c.Allocations().Stop(&api.Allocation{ID: alloc.ID}, nil)
			return err
		}},
		{"follow events", 0, refused, stream},
		{"list nodes", refused, refused, func(c *api.Client) error { _, _, err := c.Nodes().List(nil); return err }},
		{"collect garbage", refused, refused, func(c *api.Client) error { return c.System().GarbageCollect() }},
		{"read a variable", 0, refused, func(c *api.Client) error { _, _, err := c.Variables().Read("open/a", nil); return err }},
		{"read another", refused, refused, func(c *api.Client) error { _, _, err := c.Variables().Read("shut/a", nil); return err }},
		{"write a variable", refused, refused, func(c *api.Client) error {
			_, _, err := c.Variables().Create(&api.Variable{Path: "open/b", Items: api.VariableItems{"k": "v"}}, nil)
			return err
		}},
		{"who it is", 0, refused, func(c *api.Client) error { _, _, err := c.ACLTokens().Self(nil); return err }},
		{"list tokens", refused, refused, func(c *api.Client) error { _, _, err := c.ACLTokens().List(nil); return err }},
		{"make a token", refused, refused, func(c *api.Client) error {
			_, _, err := c.ACLTokens().Create(&api.ACLToken{Type: "management"}, nil)
			return err
		}},
	} {
		if got := status(row.ask(reads)); got != row.reader {
			t.Errorf("%s with a token that reads: %d, not %d", row.what, got, row.reader)
		}
		if got := status(row.ask(nobody)); got != row.nobody {
			t.Errorf("%s without a token: %d, not %d", row.what, got, row.nobody)
		}
		if got := status(row.ask(with(t, token.SecretID+"x"))); got != refused {
			t.Errorf("%s with what is no token: %d, not %d", row.what, got, refused)
		}
	}
	// What was refused has changed nothing.
	if found := running(t, management, job, 1); found[0].ID != alloc.ID {
		t.Errorf("allocation %s runs in the place of %s", found[0].ID, alloc.ID)
	}
	_, err := management.ACLTokens().Delete(token.AccessorID, nil)
	must(t, err)
	if _, _, err = reads.Jobs().List(nil); status(err) != refused {
		t.Errorf("with a token that was deleted: %v", err)
	}
}

func TestTokensAreGivenOutOnce(t *testing.T) {
	management := connect(t)
	_, _, err := with(t, "").ACLTokens().Bootstrap(nil)
	if status(err) != http.StatusBadRequest {
		t.Errorf("a second first token: %v", err)
	}
	reads, token := reader(t, management)
	found, _, err := management.ACLTokens().Info(token.AccessorID, nil)
	must(t, err)
	if found.SecretID == token.SecretID {
		t.Error("a secret is told again")
	}
	once, _, err := reads.ACLTokens().UpsertOneTimeToken(nil)
	must(t, err)
	exchanged, _, err := with(t, "").ACLTokens().ExchangeOneTimeToken(once.OneTimeSecretID, nil)
	must(t, err)
	if exchanged.AccessorID != token.AccessorID {
		t.Errorf("exchanged for %s", exchanged.AccessorID)
	}
	_, _, err = with(t, "").ACLTokens().ExchangeOneTimeToken(once.OneTimeSecretID, nil)
	if status(err) != http.StatusForbidden {
		t.Errorf("exchanged twice: %v", err)
	}
}
