job "web" {
  priority = 101
  group "app" {
    count = 50001
    ephemeral_disk {
      size = -1
    }
    network {
      port "http" {
        static = 0
      }
      port "metrics" {
        static = 70000
      }
    }
    task "server" {
      driver = "container"
      resources {
        cpu    = 0
        memory = 9
      }
      logs {
        max_files = 0
      }
    }
  }
}
