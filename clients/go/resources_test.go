package clients

import (
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

// What the resources of Nomad's Terraform provider ask of a server, one after the other: made, read, changed, read by whoever
// imports it, made again as it is, deleted, and read once more.
type resource struct {
	make, change func(*testing.T)
	// What is read of it, as much as a plan compares.
	read func() (any, error)
	// What is to be read after it was made, and after it was changed.
	made, changed any
	delete        func() error
}

// What is read as nothing, and not as an error.
var errGone = errors.New("it is gone")

func (r resource) lives(t *testing.T) {
	t.Helper()
	check := func(when string, wanted any) {
		t.Helper()
		got, err := r.read()
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if !reflect.DeepEqual(got, wanted) {
			t.Errorf("%s: %+v, wanted %+v", when, got, wanted)
		}
	}
	r.make(t)
	check("made", r.made)
	r.change(t)
	check("changed", r.changed)
	r.change(t)
	check("applied again", r.changed)
	must(t, r.delete())
	if _, err := r.read(); err != errGone && status(err) != http.StatusNotFound {
		t.Errorf("deleted, and read: %v", err)
	}
}

func TestNamespaceAsResource(t *testing.T) {
	client := connect(t)
	put := func(description string, meta map[string]string) func(*testing.T) {
		return func(t *testing.T) {
			_, err := client.Namespaces().Register(&api.Namespace{
				Name: "go-resource", Description: description, Meta: meta,
				Capabilities: &api.NamespaceCapabilities{EnabledTaskDrivers: []string{"raw_exec"}},
			}, nil)
			must(t, err)
		}
	}
	resource{
		make:   put("one", map[string]string{"a": "1"}),
		change: put("two", map[string]string{"b": "2"}),
		read: func() (any, error) {
			got, _, err := client.Namespaces().Info("go-resource", nil)
			if err != nil {
				return nil, err
			}
			return []any{got.Name, got.Description, got.Meta, got.Capabilities.EnabledTaskDrivers}, nil
		},
		made:    []any{"go-resource", "one", map[string]string{"a": "1"}, []string{"raw_exec"}},
		changed: []any{"go-resource", "two", map[string]string{"b": "2"}, []string{"raw_exec"}},
		delete:  func() error { _, err := client.Namespaces().Delete("go-resource", nil); return err },
	}.lives(t)
}

func TestNodePoolAsResource(t *testing.T) {
	client := connect(t)
	put := func(description string, meta map[string]string) func(*testing.T) {
		return func(t *testing.T) {
			pool := &api.NodePool{Name: "go-resource", Description: description, Meta: meta}
			_, err := client.NodePools().Register(pool, nil)
			must(t, err)
		}
	}
	resource{
		make:   put("one", map[string]string{"a": "1"}),
		change: put("two", map[string]string{}),
		read: func() (any, error) {
			got, _, err := client.NodePools().Info("go-resource", nil)
			if err != nil {
				return nil, err
			}
			return []any{got.Name, got.Description, got.Meta, got.SchedulerConfiguration == nil}, nil
		},
		made:    []any{"go-resource", "one", map[string]string{"a": "1"}, true},
		changed: []any{"go-resource", "two", map[string]string{}, true},
		delete:  func() error { _, err := client.NodePools().Delete("go-resource", nil); return err },
	}.lives(t)
	pools, _, err := client.NodePools().List(nil)
	must(t, err)
	if len(pools) < 2 {
		t.Errorf("there are %d pools", len(pools))
	}
	for _, pool := range []string{"default", "all"} {
		if _, err := client.NodePools().Delete(pool, nil); status(err) != http.StatusConflict {
			t.Errorf("%s is deleted: %v", pool, err)
		}
	}
}

func TestQuotaAsResource(t *testing.T) {
	client := connect(t)
	put := func(cpu int) func(*testing.T) {
		return func(t *testing.T) {
			_, err := client.Quotas().Register(&api.QuotaSpec{Name: "go-resource", Description: "d", Limits: []*api.QuotaLimit{{
				Region: "global", RegionLimit: &api.QuotaResources{CPU: pointer(cpu), MemoryMB: pointer(256)},
			}}}, nil)
			must(t, err)
		}
	}
	resource{
		make:   put(1000),
		change: put(2000),
		read: func() (any, error) {
			got, _, err := client.Quotas().Info("go-resource", nil)
			if err != nil {
				return nil, err
			}
			limit := got.Limits[0].RegionLimit
			return []any{got.Description, got.Limits[0].Region, *limit.CPU, *limit.MemoryMB}, nil
		},
		made:    []any{"d", "global", 1000, 256},
		changed: []any{"d", "global", 2000, 256},
		delete:  func() error { _, err := client.Quotas().Delete("go-resource", nil); return err },
	}.lives(t)
}

func TestVariableAsResource(t *testing.T) {
	client := connect(t)
	write(t, client, "go/warm-up")
	put := func(items api.VariableItems) func(*testing.T) {
		return func(t *testing.T) {
			_, _, err := client.Variables().Create(&api.Variable{Namespace: "default", Path: "go/resource", Items: items}, nil)
			must(t, err)
		}
	}
	resource{
		make:   put(api.VariableItems{"a": "1"}),
		change: put(api.VariableItems{"b": "2", "c": "3"}),
		read: func() (any, error) {
			got, _, err := client.Variables().Peek("go/resource", &api.QueryOptions{Namespace: "default"})
			if err == nil && got == nil {
				return nil, errGone
			}
			if err != nil {
				return nil, err
			}
			return []any{got.Namespace, got.Path, got.Items}, nil
		},
		made:    []any{"default", "go/resource", api.VariableItems{"a": "1"}},
		changed: []any{"default", "go/resource", api.VariableItems{"b": "2", "c": "3"}},
		delete:  func() error { _, err := client.Variables().Delete("go/resource", nil); return err },
	}.lives(t)
}

func TestJobAsResource(t *testing.T) {
	client := connect(t)
	const spec = `
		job "go-resource" {
		  datacenters = ["*"]
		  group "app" {
		    count = COUNT
		    task "t" {
		      driver = "mock_driver"
		      config { run_for = "1h" }
		      resources {
		        cpu    = 20
		        memory = 16
		      }
		    }
		  }
		}`
	put := func(count string) func(*testing.T) {
		return func(t *testing.T) {
			job, err := client.Jobs().ParseHCL(strings.Replace(spec, "COUNT", count, 1), true)
			must(t, err)
			// A plan comes before, and the index that was seen goes along.
			planned, _, err := client.Jobs().Plan(job, true, nil)
			must(t, err)
			registered, _, err := client.Jobs().RegisterOpts(job, &api.RegisterOptions{
				EnforceIndex: true, ModifyIndex: planned.JobModifyIndex,
			}, nil)
			must(t, err)
			for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
				eval, _, err := client.Evaluations().Info(registered.EvalID, nil)
				must(t, err)
				if eval.Status == "complete" || eval.Status == "blocked" {
					break
				}
			}
		}
	}
	resource{
		make:   put("1"),
		change: put("2"),
		read: func() (any, error) {
			got, _, err := client.Jobs().Info("go-resource", nil)
			if err != nil {
				return nil, err
			}
			if _, _, err := client.Jobs().Allocations("go-resource", false, nil); err != nil {
				return nil, err
			}
			return []any{*got.Name, *got.Namespace, *got.TaskGroups[0].Count, *got.Stop}, nil
		},
		made:    []any{"go-resource", "default", 1, false},
		changed: []any{"go-resource", "default", 2, false},
		delete: func() error {
			if _, _, err := client.Jobs().Deregister("go-resource", true, nil); err != nil {
				return err
			}
			for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
				if _, _, err := client.Jobs().Info("go-resource", nil); err != nil {
					return nil
				}
			}
			return nil
		},
	}.lives(t)
}

// Needs a server with ACLs, and its first token in NOMAD_TOKEN.
func TestTokensPolicyAsResource(t *testing.T) {
	client := connect(t)
	const one, two = `namespace "default" { policy = "read" }`, `node_pool "go-*" { capabilities = ["read"] }`
	put := func(description, rules string) func(*testing.T) {
		return func(t *testing.T) {
			policy := &api.ACLPolicy{Name: "go-resource", Description: description, Rules: rules, JobACL: &api.JobACL{
				Namespace: "default", JobID: "go-resource",
			}}
			_, err := client.ACLPolicies().Upsert(policy, nil)
			must(t, err)
		}
	}
	resource{
		make:   put("one", one),
		change: put("two", two),
		read: func() (any, error) {
			got, _, err := client.ACLPolicies().Info("go-resource", nil)
			if err != nil {
				return nil, err
			}
			return []any{got.Name, got.Description, got.Rules, got.JobACL.JobID}, nil
		},
		made:    []any{"go-resource", "one", one, "go-resource"},
		changed: []any{"go-resource", "two", two, "go-resource"},
		delete:  func() error { _, err := client.ACLPolicies().Delete("go-resource", nil); return err },
	}.lives(t)
}

// Needs a server with ACLs, and its first token in NOMAD_TOKEN.
func TestTokensRoleAndTokenAsResources(t *testing.T) {
	client := connect(t)
	for _, name := range []string{"go-one", "go-two"} {
		_, err := client.ACLPolicies().Upsert(&api.ACLPolicy{Name: name, Rules: `node { policy = "read" }`}, nil)
		must(t, err)
		t.Cleanup(func() { _, _ = client.ACLPolicies().Delete(name, nil) })
	}
	var id string
	resource{
		make: func(t *testing.T) {
			role := &api.ACLRole{Name: "go-resource", Policies: []*api.ACLRolePolicyLink{{Name: "go-one"}}}
			made, _, err := client.ACLRoles().Create(role, nil)
			must(t, err)
			id = made.ID
		},
		change: func(t *testing.T) {
			role := &api.ACLRole{ID: id, Name: "go-resource", Description: "d", Policies: []*api.ACLRolePolicyLink{{Name: "go-two"}}}
			_, _, err := client.ACLRoles().Update(role, nil)
			must(t, err)
		},
		read: func() (any, error) {
			got, _, err := client.ACLRoles().Get(id, nil)
			if err != nil {
				return nil, err
			}
			return []any{got.Name, got.Description, got.Policies[0].Name}, nil
		},
		made:    []any{"go-resource", "", "go-one"},
		changed: []any{"go-resource", "d", "go-two"},
		delete:  func() error { _, err := client.ACLRoles().Delete(id, nil); return err },
	}.lives(t)

	var token *api.ACLToken
	resource{
		make: func(t *testing.T) {
			asked := &api.ACLToken{Name: "one", Type: "client", Policies: []string{"go-one"}, ExpirationTTL: time.Hour}
			made, _, err := client.ACLTokens().Create(asked, nil)
			must(t, err)
			if made.SecretID == "" || made.ExpirationTime == nil {
				t.Errorf("made: %+v", made)
			}
			token = made
		},
		change: func(t *testing.T) {
			asked := &api.ACLToken{AccessorID: token.AccessorID, Name: "two", Type: "client", Policies: []string{"go-two"}}
			_, _, err := client.ACLTokens().Update(asked, nil)
			must(t, err)
		},
		read: func() (any, error) {
			got, _, err := client.ACLTokens().Info(token.AccessorID, nil)
			if err != nil {
				return nil, err
			}
			return []any{got.Name, got.Type, got.Policies, got.Global}, nil
		},
		made:    []any{"one", "client", []string{"go-one"}, false},
		changed: []any{"two", "client", []string{"go-two"}, false},
		delete:  func() error { _, err := client.ACLTokens().Delete(token.AccessorID, nil); return err },
	}.lives(t)
}
