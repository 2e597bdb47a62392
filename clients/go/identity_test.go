package clients

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/hashicorp/nomad/api"
)

// The address by which the server's tokens name it: scripts/clients starts it with that.
const issuer = "https://berth.example"

// As they stand in tokens.
const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// Finds the issuer at the server's address, as DNS would.
type resolver struct{ server *url.URL }

func (r resolver) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Host != strings.TrimPrefix(issuer, "https://") {
		return nil, errors.New("nobody else is asked: " + request.URL.String())
	}
	request = request.Clone(request.Context())
	request.URL.Scheme, request.URL.Host, request.Host = r.server.Scheme, r.server.Host, ""
	return http.DefaultTransport.RoundTrip(request)
}

// What a service knows that is to believe the tasks of a cluster: nothing but the issuer.
func discovered(t *testing.T) (context.Context, *oidc.Provider) {
	t.Helper()
	server, err := url.Parse(os.Getenv("NOMAD_ADDR"))
	must(t, err)
	known := oidc.ClientContext(context.Background(), &http.Client{Transport: resolver{server}})
	provider, err := oidc.NewProvider(known, issuer)
	must(t, err)
	return known, provider
}

// The token that a task of a new job is given for an audience.
func tokenOfTask(t *testing.T, client *api.Client, id string, ttl time.Duration) string {
	t.Helper()
	task := api.NewTask("main", "raw_exec").
		SetConfig("command", "/bin/sh").
		SetConfig("args", []string{"-c", "echo $NOMAD_TOKEN_vault; exec sleep 1000"}).
		Require(&api.Resources{CPU: pointer(20), MemoryMB: pointer(16)})
	task.Identities = []*api.WorkloadIdentity{{Name: "vault", Audience: []string{"vault.example"}, Env: true, TTL: ttl}}
	job := api.NewServiceJob(id, id, "global", 50).AddTaskGroup(api.NewTaskGroup("app", 1).AddTask(task))
	_, _, err := client.Jobs().Register(job, nil)
	must(t, err)
	t.Cleanup(func() { _, _, _ = client.Jobs().Deregister(id, false, nil) })
	alloc := &api.Allocation{ID: running(t, client, job, 1)[0].ID}
	cancel := make(chan struct{})
	defer close(cancel)
	frames, failures := client.AllocFS().Logs(alloc, true, "main", "stdout", "start", 0, cancel, nil)
	said := ""
	for late := time.After(patience); !strings.Contains(said, "\n"); {
		select {
		case frame := <-frames:
			said += string(frame.Data)
		case err := <-failures:
			t.Fatal(err)
		case <-late:
			t.Fatalf("no token after %s: %q", patience, said)
		}
	}
	return strings.TrimSpace(said)
}

// As Vault and the clouds do: they ask the issuer for its keys, and again when a token names one that they do not know.
func TestIdentityIsVerifiedByOthers(t *testing.T) {
	client := connect(t)
	token, short := tokenOfTask(t, client, "long", time.Hour), tokenOfTask(t, client, "short", 6*time.Second)
	known, provider := discovered(t)
	verifier := provider.Verifier(&oidc.Config{ClientID: "vault.example"})
	verified, err := verifier.Verify(known, token)
	must(t, err)
	if verified.Subject != "global:default:long:app:main:vault" || verified.Issuer != issuer {
		t.Errorf("it is said to be %+v", verified)
	}
	var algorithms struct {
		All []string `json:"id_token_signing_alg_values_supported"`
	}
	must(t, provider.Claims(&algorithms))
	if len(algorithms.All) != 1 || algorithms.All[0] != "ES256" {
		t.Errorf("tokens of %v are to be verified here, too", algorithms.All)
	}

	if _, err := provider.Verifier(&oidc.Config{ClientID: "aws.example"}).Verify(known, token); err == nil {
		t.Error("it is meant for others")
	}
	for at := range token {
		if token[at] == '.' {
			continue
		}
		// Of the last one, the lower bits mean nothing.
		other := string(digits[strings.IndexByte(digits, token[at])^32])
		if _, err := verifier.Verify(known, token[:at]+other+token[at+1:]); err == nil {
			t.Fatalf("byte %d was changed, and nobody saw it", at)
		}
	}
	if _, err := verifier.Verify(known, token[:strings.LastIndex(token, ".")+1]); err == nil {
		t.Error("it is not signed")
	}

	var expired *oidc.TokenExpiredError
	for late := time.Now().Add(patience); !errors.As(err, &expired); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("it has not expired: %v", err)
		}
		_, err = verifier.Verify(known, short)
	}

	// A new key is there once something is signed with it, and the old one as long as what it has signed may be shown.
	old, _, err := client.Keyring().List(nil)
	must(t, err)
	_, _, err = client.Keyring().Rotate(&api.KeyringRotateOptions{Full: true}, nil)
	must(t, err)
	newer := tokenOfTask(t, client, "newer", time.Hour)
	header := func(token string) string { return strings.Split(token, ".")[0] }
	if header(newer) == header(token) {
		t.Error("it was signed with the old key")
	}
	for _, token := range []string{newer, token} {
		_, err = verifier.Verify(known, token)
		must(t, err)
	}
	for _, key := range old {
		// What it has encrypted is encrypted anew meanwhile.
		for late := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
			_, err = client.Keyring().Delete(&api.KeyringDeleteOptions{KeyID: key.KeyID}, nil)
			if err == nil {
				break
			}
			if time.Now().After(late) {
				t.Fatal(err)
			}
		}
	}
	// Whoever asks from now on believes the new key alone.
	known, provider = discovered(t)
	verifier = provider.Verifier(&oidc.Config{ClientID: "vault.example"})
	_, err = verifier.Verify(known, newer)
	must(t, err)
	if _, err := verifier.Verify(known, token); err == nil {
		t.Error("its key was removed")
	}
}
