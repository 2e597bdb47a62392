count = 70
