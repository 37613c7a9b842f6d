"""Worker processes: started, asked, answered, watched, ended."""
