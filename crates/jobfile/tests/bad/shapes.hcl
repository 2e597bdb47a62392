job "web" {
  group = "app"
  meta "x" {
    a = "b"
  }
  group "app" {
    count {
      min = 1
    }
    restart = {
      attempts = 1
    }
    task "server" {
      driver = "container"
      resources "big" {
        cpu = 100
      }
    }
  }
}
