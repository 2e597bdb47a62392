job "report" {
  id   = "report/2026"
  type = "batch"
  group "work" {
    count = 0
    task "work" {
      driver = "raw_exec"
      config {
        command = "sh"
      }
    }
  }
}
