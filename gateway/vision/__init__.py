"""What chat, images and videos share: the models and when they are loaded, the fields they have in common, pictures and
clips that come with a request, and what is counted."""
