job "web" {
  group "front" {
    count = 3

    task "httpd" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo serving pages; exec sleep 1000"]
      }
    }
  }
}
