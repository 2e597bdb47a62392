job "web" {
  group ".app" {
    task "alloc" {
      driver = "mock_driver"
    }
    task ".hidden" {
      driver = "mock_driver"
    }
    task "allocation" {
      driver = "mock_driver"
    }
  }
}
