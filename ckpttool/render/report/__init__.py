"""A report on a checkpoint: one HTML page that needs nothing else, and the same facts as JSON.

page     the page, under a policy that lets no other script or style in
columns  what the page's script shows, by columns
json     the facts as JSON

The page is made of page.html, page.css and page.js, which are files of the package.
"""
