job "web" {
  count = 3
  driver = "docker"
  group "app" {
    priority = 70
    task "server" {
      driver = "container"
      cpu    = 100
    }
  }
}
