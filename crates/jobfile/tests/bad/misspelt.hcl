job "web" {
  group "front" {
    task "server" {
      drivr = "raw_exec"

      config {
        command = "/bin/true"
      }
    }
  }
}
