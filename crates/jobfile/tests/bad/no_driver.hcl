job "web" {
  group "app" {
    task "server" {
      config {
        image = "nginx"
      }
    }
  }
}
