job "j" {
  group "g" {
    task "t" {
      driver = "exec"
      config {
        command = "/bin/true"
        wrong   = 1
      }
      vault {
        role = "r"
      }
      resources {
        numa {
          affinity = "require"
        }
      }
    }
  }
}
