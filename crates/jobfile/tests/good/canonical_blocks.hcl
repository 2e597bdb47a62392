# Blocks that are kept, with their defaults.
job "kept" {
  group "all" {
    consul {}
    update {}
    migrate {}
    task "run" {
      driver = "mock_driver"
      vault { role = "reader" }
      consul { partition = "p" }
      csi_plugin {
        id   = "plug"
        type = "node"
      }
    }
    service {
      port = "80"
      connect {
        sidecar_service {}
      }
    }
  }
}
