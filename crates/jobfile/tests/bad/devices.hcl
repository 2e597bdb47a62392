job "train" {
  task "step" {
    driver = "container"
    resources {
      cpu        = 100
      cores      = 2
      memory     = 512
      memory_max = 256
      device "nvidia//A100" {}
      device {}
      device "gpu" {
        count = 2
        share = 500
      }
      device "gpu" {
        count = 0
        share = 1000
      }
    }
  }
}
