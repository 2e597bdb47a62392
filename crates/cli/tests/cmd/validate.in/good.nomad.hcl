job "web" {
  group "front" {
    count = 2
    task "serve" {
      driver = "raw_exec"
      config {
        command = "/bin/true"
      }
    }
    task "watch" {
      driver = "raw_exec"
      config {
        command = "/bin/true"
      }
    }
  }
}
