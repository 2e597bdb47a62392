job "web" {
  region = "here
  group "app" {
    task "server" {
      driver = "container"
      user   = "x
      config { image = "nginx" }
    }
  }
}
