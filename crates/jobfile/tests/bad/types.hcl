job "web" {
  all_at_once = "maybe"
  datacenters = "dc1"
  meta        = "x"
  priority    = 1.5
  group "app" {
    count          = "three"
    shutdown_delay = 5
    task "server" {
      driver       = ["container"]
      kill_timeout = "5 seconds"
      env {
        LIST = ["a"]
      }
      leader = 1
    }
  }
}
