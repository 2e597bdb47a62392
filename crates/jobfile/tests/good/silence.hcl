# What becomes of allocations on a silent node, in the words from before there was a `disconnect` block.
job "patient" {
  group "web" {
    max_client_disconnect      = "1h"
    prevent_reschedule_on_lost = true

    task "server" {
      driver = "raw_exec"
      config {
        command = "sh"
      }
    }
  }

  group "leader" {
    stop_after_client_disconnect = "30m"

    task "server" {
      driver = "raw_exec"
      config {
        command = "sh"
      }
    }
  }
}
