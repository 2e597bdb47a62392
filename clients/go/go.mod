module berth.example/clients

go 1.26

require (
	github.com/coreos/go-oidc/v3 v3.21.0
	github.com/hashicorp/nomad/api v0.0.0-20260907080526-08ef8f3d26da
)

require (
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/go-jose/go-jose/v4 v4.1.4 // indirect
	github.com/go-viper/mapstructure/v2 v2.5.0 // indirect
	github.com/gorilla/websocket v1.5.3 // indirect
	github.com/hashicorp/cronexpr v1.1.3 // indirect
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	github.com/hashicorp/go-rootcerts v1.0.2 // indirect
	github.com/mitchellh/go-homedir v1.1.0 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	golang.org/x/oauth2 v0.36.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
