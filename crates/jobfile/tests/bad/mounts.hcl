job "web" {
  group "app" {
    task "server" {
      driver = "docker"
      config {
        image = "nginx:1.27"
        mount {
          source = "local/a"
          target = "/a"
        }
        mount {
          type   = "tmpfs"
          target = ""
        }
        mount {
          type   = "bind"
          sorce  = "local/a"
        }
      }
    }
    task "pretended" {
      driver = "mock_driver"
      config {
        start_events = -1
        exit_code    = 4294967296
      }
    }
  }
}
