job "web" {
  group "app" {
    service {
      name     = "shop"
      provider = "nomad"
      check {
        type     = "tcp"
        interval = "10s"
        timeout  = "2s"
      }
      check {
        type     = "http"
        path     = "/health"
        port     = "8080"
        interval = "10s"
        timeout  = "2s"
      }
      check {
        type          = "http"
        port          = "8080"
        path          = "/"
        interval      = "10s"
        timeout       = "2s"
        success_codes = ["200-204", "2xx", "99", "404-403", "600"]
      }
      check {
        type            = "tcp"
        port            = "8080"
        interval        = "10s"
        timeout         = "2s"
        tls_skip_verify = true
        grpc_service    = "shop"
        success_before_passing = -1
      }
    }
    task "server" {
      driver = "exec"
      config {
        command = "sleep"
      }
    }
  }
}
