job "web" {
  secret "shared" {
    provider = "nomad"
    path     = "app/shared"
  }
  group "g" {
    task "server" {
      driver = "container"
      secret "my-db" {
        provider = "nomad"
        path     = "app.db"
      }
      secret "v" {
        provider = "vault"
        path     = "secret/db"
      }
      secret "none" {
        path = "app/db"
      }
      secret "shared" {
        provider = "nomad"
        path     = "app/db"
        config {
          namespase = "other"
          files     = "local/db"
        }
        env {
          A = "b"
        }
      }
      secret "one" {
        provider = "nomad"
        path     = "app/db"
        config {
          files = "secrets/same"
        }
      }
      secret "two" {
        provider = "nomad"
        path     = "app/db"
        config {
          files     = "secrets/same"
          namespace = 7
        }
      }
      secret "up" {
        provider = "nomad"
        path     = "nomad/other"
        config {
          files = "secrets/../../up"
        }
      }
    }
  }
}
