job "example" {
  type = "service"
  group "cache" {
    task "redis" {
      driver = "raw_exec"
      config {
        command = "/bin/true"
      }
    }
  }
}
