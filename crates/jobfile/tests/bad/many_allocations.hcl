job "web" {
  group "small" {
    count = 50000
    task "server" {
      driver = "exec"
      config {
        command = "sleep"
      }
    }
  }
  group "large" {
    count = 50000
    task "server" {
      driver = "exec"
      config {
        command = "sleep"
      }
    }
  }
  group "last" {
    task "server" {
      driver = "exec"
      config {
        command = "sleep"
      }
    }
  }
}
