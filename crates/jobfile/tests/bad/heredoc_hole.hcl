job "web" {
  meta {
    text = <<-END
      one ${nobody + 1}
      two ${var.x}
    END
  }
  task "server" {
    driver = "container"
  }
}
