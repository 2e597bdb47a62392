job "web" {
  group "app" {
    task "server" {
      driver = "docker"
      config {
        image       = "shop"
        entrypoint  = 7
        group_add   = ["audio"]
        load        = "shop.tar"
        runtime     = "runsc"
        port_map    = { http = 80 }
        dns_servers = ["10.0.0.1"]
        memory_hard_limit = 512
      }
    }
  }
}
