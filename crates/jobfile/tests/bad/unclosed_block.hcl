job "web" {
  group "app" {
    task "server" {
      driver = "container"
    }
  }
