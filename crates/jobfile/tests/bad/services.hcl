job "web" {
  group "app" {
    network {
      port "http" {}
    }
    service {
      name     = "my shop"
      provider = "nomd"
      port     = "htpp"
      check {
        interval = "500ms"
        timeout  = "2s"
      }
      check {
        type     = "http"
        interval = "10s"
        timeout  = "2s"
        port     = "metrics"
        protocol = "gopher"
      }
      check {
        type     = "script"
        interval = "10s"
        timeout  = "2s"
      }
      check {
        type     = "grpc"
        interval = "10s"
        timeout  = "2s"
      }
      check {
        type     = "http"
        path     = "health"
        method   = "GET /"
        protocol = "https"
        interval = "10s"
        timeout  = "2s"
        task     = "sever"
      }
      on_update = "wait"
      connect {
        sidecar_servce {}
      }
    }
    task "server" {
      driver = "container"
    }
  }
}
