job "web" {
  group "g" {
    count = 1

    update {
      min_healthy_time = "0s"
    }

    task "t" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "trap : USR1; while :; do sleep 1; done"]
      }
    }
  }
}
