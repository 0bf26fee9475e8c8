"""The batch lane over HTTP: jobs, resumable uploads, progress as events, results, audio, webhooks."""
